// SPDX-License-Identifier: Apache-2.0
// From block profiles to the time of an optimizer step.
#pragma once

#include <vector>

#include "evaluate/group_pass.hpp"
#include "evaluate/plan_view.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch {

/// How the makespan of the pipeline is found.
enum class MakespanMethod { ClosedForm, Simulation };

/// A step as the device sees it that has most to do (the last to end among equals).
struct StepResult {
  StepTimeBreakdown step;
  Seconds imbalance;  ///< mean over devices of what they have less to do than the busiest
  int busiest = 0;    ///< its position
};

[[nodiscard]] StepResult step_time(const PlanView& view, MakespanMethod method,
                                   EvaluationWorkspace& workspace);
/// Admissible: the order's bound of the pipeline, optimizer and host, no reduction at all.
[[nodiscard]] Seconds step_time_bound(const PlanView& view, EvaluationWorkspace& workspace);

/// What the devices of a position gather and reduce once per step. Needs `workspace.passes`.
[[nodiscard]] std::vector<PricedCommunication> step_collectives(
    const PlanView& view, const EvaluationWorkspace& workspace, int position);

/// One micro-batch through everything that one position holds. Needs `workspace.passes`.
[[nodiscard]] GroupPass position_pass(const PlanView& view, const EvaluationWorkspace& workspace,
                                      int position);

}  // namespace plansearch
