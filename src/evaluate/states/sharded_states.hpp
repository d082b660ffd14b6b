// SPDX-License-Identifier: Apache-2.0
// What the policies of parameters and gradients add to a placement: gathers and reductions, inside
// a pass and at the end of the step. The sequences of a micro-batch do not matter here.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "evaluate/block/phase_message.hpp"
#include "evaluate/block/placed_network.hpp"

namespace plansearch {

/// A message at the end of a step, of one copy of a block. Those of all blocks of a stage go
/// together, so that only there they get a price.
struct StepMessage {
  Communication communication;
  Bytes tiles;  ///< of whole tiles: the plans of a class cut them over groups of their own sizes
  /// Of a parameter that other blocks use as well; empty for the others. Lives in the network.
  std::string_view shared_key;

  /// Of the piece that a rank sends, on the mesh of a plan.
  [[nodiscard]] Bytes bytes(const DeviceMesh& mesh) const {
    return tiles / static_cast<double>(mesh.size(communication.cut));
  }
};

/// Parameters that live in memory of the host, as a rank copies them for each gather.
struct FetchedBytes {
  Bytes forward;
  Bytes backward;
};

struct KeptBlock {
  std::vector<PhaseMessage> passes;
  std::vector<StepMessage> steps;
  FetchedBytes fetched;
};

struct ShardedStates {
  std::shared_ptr<const PlacedNetwork> placed;
  std::vector<KeptBlock> blocks;  ///< by index into Network::blocks
  /// Gradient reductions of parameters that several blocks use, due when a pipeline parts them.
  std::vector<StepMessage> shared;
};

[[nodiscard]] ShardedStates keep_states(const PricingContext& context, const NetworkIndex& index,
                                        std::shared_ptr<const PlacedNetwork> placed,
                                        const PlanDegrees& plan, const DeviceMesh& mesh,
                                        const Placements* placements = nullptr);

}  // namespace plansearch
