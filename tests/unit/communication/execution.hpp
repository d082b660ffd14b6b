// SPDX-License-Identifier: Apache-2.0
// A placement and its derived messages, executed: every device holds elements of integer tensors,
// works on its slices step by step, and gets what messages bring it. Nothing else moves. A read of
// what is not held, a tile on too many devices or a sum that misses a part is a fault.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "communication/slices/tile_moves.hpp"
#include "small_networks.hpp"

namespace plansearch::test {

/// A block under a placement, and everything that was derived from it.
struct PlacedBlockCase {
  Network network;
  BlockIndex index;
  std::shared_ptr<const Placements> placements{};  ///< that the rules speak of, if any
  PlacementRules rules;
  BlockPlacement placement;
  TensorPolicies policies;
  ShardingRules sharding;
  std::vector<Communication> messages;
  std::vector<derivation::OperatorMoves> moves;  ///< by operator

  /// From the placement as it is now.
  void derive();
};

/// The first fault of one training step of the block; empty: outputs and all gradients are right on
/// every device.
[[nodiscard]] std::string execute(const PlacedBlockCase& placed, unsigned seed);

}  // namespace plansearch::test
