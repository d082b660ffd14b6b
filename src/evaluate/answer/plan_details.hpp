// SPDX-License-Identifier: Apache-2.0
// Parts of PlanDetails, each from the view of a plan, and the timelines of its blocks.
#pragma once

#include <vector>

#include "evaluate/step/plan_views.hpp"
#include "evaluate/step/priced_program.hpp"

namespace plansearch {

/// Messages that the busiest device sends in a step, one line for messages that are alike.
/// `listed`: see listed_step.
[[nodiscard]] std::vector<PricedCommunication> communication_of(const ProfileMaker& profiles,
                                                                const PricingInput& view,
                                                                const ListedStep* listed,
                                                                EvaluationWorkspace& workspace);

/// One row per position, first to last.
[[nodiscard]] std::vector<StageReport> stages_of_view(const PricingInput& view,
                                                      EvaluationWorkspace& workspace);

/// Every operator that one position runs, block by block in the order of the network; operators
/// that take no time (views, members of a fused launch) are left out.
[[nodiscard]] std::vector<OperatorReport> operators_at(const ProfileMaker& profiles,
                                                       const PricingInput& view, int position);

/// Every message inside the passes of the blocks of one position that are simulated on streams, in
/// the order of issue; nothing for blocks whose framework hides by shares.
[[nodiscard]] std::vector<HiddenMessage> hidden_at(const ProfileMaker& profiles,
                                                   const PricingInput& view, int position);

/// Tensors that are alive when the fullest device holds most.
[[nodiscard]] PeakReport held_at_peak(const ProfileMaker& profiles, const PricingInput& view,
                                      EvaluationWorkspace& workspace);

/// Two copies of every block of hidden_at, forward and backward, for traces.
[[nodiscard]] std::vector<BlockTimeline> timelines_at(const ProfileMaker& profiles,
                                                      const PricingInput& view, int position);

/// One step of a legal plan, instruction by instruction, with the times and the memory of its
/// price. InputError where the runtime's lists deadlock.
[[nodiscard]] std::shared_ptr<const PricedProgram> program_of(const PlanEvaluator& evaluator,
                                                              const ParallelPlan& plan,
                                                              const ProgramRequest& request = {});

/// Everything that a report shows of a priced plan. `listed`: see listed_step.
[[nodiscard]] PlanDetails details_of(const ProfileMaker& profiles, const PricingInput& view,
                                     const ListedStep* listed, EvaluationWorkspace& workspace);

}  // namespace plansearch
