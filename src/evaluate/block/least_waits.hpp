// SPDX-License-Identifier: Apache-2.0
// The least waits of the kernels of one micro-batch: messages beside which none of them runs.
#pragma once

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

/// The waits of a piece, exactly.
[[nodiscard]] BlockWaits least_waits(const PricingContext& context, const PlacedNetwork& placed,
                                     std::size_t block, const RepeatedShares& repeated, Piece piece,
                                     DispatcherId dispatcher);

}  // namespace plansearch
