// SPDX-License-Identifier: Apache-2.0
// Gathers and reductions at the end of a step, and what of them nothing hides.
#pragma once

#include <algorithm>
#include <vector>

#include "evaluate/step/pricing_input.hpp"

namespace plansearch {

/// Adds the messages of positions that hold the same parameters, at the end of a step.
void add_shared_messages(const PricingInput& view, PlanInvariants& invariants);

/// Fills in `messages`, once; profiles need the states of their class.
void complete_messages(const PricingContext& context, PlanInvariants& invariants);

/// Calls `visit` with every message of a kind of device and its exposed time, given one micro-batch
/// of the device: gathers hide behind its forward, reductions behind its backward, what an
/// update needs behind nothing.
template <typename Visit>
void for_each_step_message(const PricingInput& view, const PhaseLengths& pass, std::size_t kind,
                           Visit visit) {
  const StageClassMessages& messages = view.invariants.messages[kind];
  Seconds forward = pass.forward;
  Seconds backward = pass.backward + pass.weight;
  for (const PhaseMessage& message : messages.overlapping) {
    if (message.communication.subject == Subject::Update) {
      visit(message, message.time);
      continue;
    }
    const auto overlap = static_cast<std::size_t>(message.overlap);
    const bool gather = message.communication.subject == Subject::Parameter;
    Seconds& window = gather ? forward : backward;
    const Seconds hidden =
        std::min(message.time * view.problem.framework->overlap[overlap].share, window);
    window -= hidden;
    const Seconds moving = std::min(hidden, message.transfer);
    visit(message, message.time - hidden + moving * view.constants.contention[overlap]);
  }
  for (const PhaseMessage& message : messages.last) visit(message, message.time);
}

/// Fills `workspace.work`, one per kind of device. Needs `workspace.passes`.
void fill_work(const PricingInput& view, EvaluationWorkspace& workspace);

/// The same as a list, for readers.
[[nodiscard]] std::vector<PricedCommunication> step_collectives(const PricingInput& view,
                                                                const PhaseLengths& pass,
                                                                int position);

}  // namespace plansearch
