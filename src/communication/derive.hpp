// SPDX-License-Identifier: Apache-2.0
// Communication as a consequence of placement and policies. Nothing here knows a strategy by name.
#pragma once

#include <vector>

#include "communication/placement.hpp"
#include "communication/tensor_policy.hpp"
#include "plansearch/communication.hpp"

namespace plansearch {

/// Everything one copy of `block` communicates: activations between operators and their gradients,
/// regathered inputs of weight gradients, row statistics, rings, parameters and gradients. Ordered
/// by phase, then by operator in the order that phase visits them. Data that only changes hands on
/// the device (slices) is not listed.
[[nodiscard]] std::vector<Communication> derive_communication(
    const Network& network, const Block& block, const PlacementRules& rules,
    const BlockPlacement& placement, const TensorPolicies& policies, const ShardingRules& sharding);

/// What crosses the edge of a pipeline stage that ends with `block`: outputs forward, their
/// gradients backward, each in the layout of the edge.
[[nodiscard]] std::vector<Communication> derive_stage_edge(const Network& network,
                                                           const Block& block,
                                                           const PlacementRules& rules);

/// The blocks one pipeline stage holds.
using StageBlocks = std::vector<std::vector<std::size_t>>;

/// Parameters that live on several stages (tied embeddings): one gradient all-reduce per step over
/// the stages that hold them, on the elements of one copy.
[[nodiscard]] std::vector<Communication> derive_shared_parameters(const Network& network,
                                                                  const PlacementRules& rules,
                                                                  const StageBlocks& stages,
                                                                  const TensorPolicies& policies);

/// One group of equal moves of a tile along a ring (or a diagonal of the grid).
struct RingMove {
  AxisSet axes;  ///< the coordinates in which sender and receiver differ
  int count = 0;
  bool operator==(const RingMove&) const = default;
};
using RingMoves = FixedVector<RingMove, 4>;

/// How the tiles of one tensor move while an operator runs its steps, given the slices of the
/// tensor's dimensions.
[[nodiscard]] RingMoves ring_moves(std::span<const SliceMap> slices, int steps,
                                   const DeviceMesh& mesh);

}  // namespace plansearch
