// SPDX-License-Identifier: Apache-2.0
// The parts of a step as predicted beside those that a profiler saw.
#pragma once

#include <array>

#include "io/tables/kernel_profile/step_profile.hpp"
#include "plansearch/network.hpp"
#include "plansearch/plan_report.hpp"
#include "report/diagnosis.hpp"

namespace plansearch {

/// The terms of one step of the busiest device.
struct StepTerms {
  std::array<Seconds, io::kProfileTerms> kernels{};
  Seconds exposed{};  ///< messages beside which nothing computes
  Seconds idle{};     ///< waits for other stages, and for the host
  Seconds site{};     ///< further time, of which nothing says where it goes
};

[[nodiscard]] StepTerms predicted_terms(const Network& network, const PlanReport& plan);

/// Rows for the reader, of a profile of so many steps; terms that neither has are left out.
[[nodiscard]] std::vector<TermReport> terms_beside(const StepTerms& predicted,
                                                   const io::StepProfile& measured, double steps);

/// How well a prediction explains the measured parts: a density, of the parts that are at least a
/// fiftieth of a step. `sigma` is the deviation of the logarithm of a part.
[[nodiscard]] double density_of_terms(const StepTerms& predicted, const io::StepProfile& measured,
                                      double steps, double sigma);

/// Medians, scatter and the slowest rank.
[[nodiscard]] StepTimes step_times(const std::vector<io::RankStep>& steps);

}  // namespace plansearch
