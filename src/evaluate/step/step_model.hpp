// SPDX-License-Identifier: Apache-2.0
// From block profiles to the time of an optimizer step.
#pragma once

#include "evaluate/step/priced_program.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch {

/// How the makespan of the pipeline is found.
enum class MakespanMethod { ClosedForm, Simulation };

/// A step as the device sees it that has most to do (the last to end among equals).
struct StepResult {
  StepTimeBreakdown step;
  Seconds imbalance;  ///< mean over devices of the work that they have less than the busiest
  int busiest = 0;    ///< its position
  Seconds next_step_overlap;  ///< the part of its makespan that runs beside the step after it
};

/// `listed`: see listed_step.
[[nodiscard]] StepResult step_time(const PricingInput& view, MakespanMethod method,
                                   EvaluationWorkspace& workspace,
                                   const ListedStep* listed = nullptr);
/// Admissible: the order's bound of the pipeline, optimizer and host, no reduction at all.
[[nodiscard]] Seconds step_time_bound(const PricingInput& view, EvaluationWorkspace& workspace);
/// The whole; where passes move messages by a simulation in which no device waits to hand one over.
[[nodiscard]] Seconds simulated_bound(const PricingInput& view, EvaluationWorkspace& workspace);

}  // namespace plansearch
