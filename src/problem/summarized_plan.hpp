// SPDX-License-Identifier: Apache-2.0
// From the summary of a plan in a report back to the plan.
#pragma once

#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"

namespace plansearch {

/// The plan of a report that `evaluator` has priced.
[[nodiscard]] ParallelPlan plan_of(const PlanSummary& summary, const PlanEvaluator& evaluator);

}  // namespace plansearch
