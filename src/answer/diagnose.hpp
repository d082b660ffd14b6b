// SPDX-License-Identifier: Apache-2.0
// Is a measured step normal, and if not, what explains it?
#pragma once

#include <optional>
#include <string>

#include "question/resolve_plan.hpp"
#include "report/diagnosis.hpp"

namespace plansearch {

/// A measured step, a profile of some steps, or both.
struct Measurement {
  std::optional<Seconds> step{};     ///< nothing: as the profile says
  std::string profile{};             ///< file of a profiler; empty: none
  std::optional<double> profiled{};  ///< steps that it covers; nothing: as it says itself, else one
};

/// Prices the plan as asked and with every cause of causes.hpp. InputError as resolve_plan, and
/// where nothing says how long a step takes.
[[nodiscard]] DiagnosisReport diagnose(const PlanRequest& asked, const Measurement& measured);

}  // namespace plansearch
