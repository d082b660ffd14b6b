// SPDX-License-Identifier: Apache-2.0
// The least waits of the kernels of one micro-batch: messages beside which none of them runs.
#pragma once

#include <memory>
#include <vector>

#include "evaluate/block/local_work.hpp"

namespace plansearch {

/// A piece of a micro-batch, or all of it.
struct Piece {
  int sequences = 1;
  bool alone = true;  ///< no other piece's kernels run while its messages are on their way
  bool operator==(const Piece&) const = default;
};
[[nodiscard]] inline Piece piece_of(const PlanDegrees& plan) {
  return {plan.micro_batch / plan.pieces, plan.pieces == 1};
}

/// The waits of one copy of one block on one device.
struct BlockWaits {
  Seconds forward;
  Seconds backward;         ///< both gradients
  Seconds weight_gradient;  ///< the part of `backward` that a schedule may run later
  /// How long input gradients are on their way beside which weight gradients alone run.
  Seconds behind;
  ByRecompute<Seconds> recompute;  ///< forward messages that are sent again
  /// The waits of a forward and a backward side by side: for messages beside which neither runs.
  Seconds beside;
  Seconds exchange;  ///< how long the others of both are on their way, one after the other

  void add(const BlockWaits& other, double copies);
};

/// Kernels of one micro-batch on its way through the network, each on its device.
struct NetworkWork {
  Seconds forward;
  Seconds input_gradient;
  Seconds weight_gradient;
  ByRecompute<Seconds> repeated;

  void add(const NetworkWork& other, double copies);
};

struct NetworkWaits {
  std::shared_ptr<const PlacedNetwork> placed;
  std::vector<BlockWaits> blocks;  ///< by index into Network::blocks
};

/// The waits of a piece, exactly.
[[nodiscard]] BlockWaits least_waits(const PricingContext& context, const PlacedNetwork& placed,
                                     std::size_t block, const RepeatedShares& repeated, Piece piece,
                                     DispatcherId dispatcher);

}  // namespace plansearch
