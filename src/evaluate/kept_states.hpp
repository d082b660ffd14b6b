// SPDX-License-Identifier: Apache-2.0
// What the policies of parameters and gradients add to a placement: gathers and reductions, inside
// a pass and at the end of the step. The sequences of a micro-batch do not matter here.
#pragma once

#include <memory>
#include <vector>

#include "evaluate/pass_message.hpp"
#include "evaluate/placed_network.hpp"

namespace plansearch {

struct KeptBlock {
  std::vector<PassMessage> passes;
  /// At the end of the step, one copy of the block; messages of all blocks of a stage go together,
  /// so that only there they get a price. Bytes are of whole tiles, before `Communication::cut`.
  std::vector<PricedCommunication> steps;
};

struct KeptStates {
  std::shared_ptr<const PlacedNetwork> placed;
  std::vector<KeptBlock> blocks;  ///< by index into Network::blocks
  /// Gradient reductions of parameters that several blocks use, due when a pipeline parts them.
  std::vector<PricedCommunication> shared;
};

[[nodiscard]] KeptStates keep_states(const PricingContext& context, const NetworkIndex& index,
                                     std::shared_ptr<const PlacedNetwork> placed,
                                     const PlanDegrees& plan, const DeviceMesh& mesh);

}  // namespace plansearch
