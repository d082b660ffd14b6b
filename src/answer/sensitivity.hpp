// SPDX-License-Identifier: Apache-2.0
// Sensitivity of the step time of one plan: every rate, bandwidth, time and size of the files,
// each changed by itself.
#pragma once

#include <optional>

#include "plansearch/load_problem.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "report/comparison.hpp"

namespace plansearch {

/// `problem`: that of the plan. Values whose change moves neither step time nor memory are counted,
/// not listed. The largest change of the step first. `goal`: a step time, to which each of them is
/// solved by itself, up to 1,024 times or a part of 1,024.
[[nodiscard]] SensitivityReport sensitivity_of(const ResolvedQuestion& asked,
                                               const Problem& problem, const ParallelPlan& plan,
                                               int threads, std::optional<Seconds> goal = {});

}  // namespace plansearch
