// SPDX-License-Identifier: Apache-2.0
// What the step time of one plan depends on: every rate, bandwidth, time and size of the files,
// each changed by itself.
#pragma once

#include <vector>

#include "plansearch/load_problem.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "report/sensitivity.hpp"

namespace plansearch {

/// `problem`: that of the plan. Values whose change moves neither step time nor memory are counted,
/// not listed. The largest change of the step first.
[[nodiscard]] SensitivityReport sensitivity_of(const ResolvedQuestion& asked,
                                               const Problem& problem, const ParallelPlan& plan,
                                               int threads);

}  // namespace plansearch
