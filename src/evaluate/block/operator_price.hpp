// SPDX-License-Identifier: Apache-2.0
// The work of a block by operator and by edge: what a choice between placements of single
// operators compares. These are the very parts that a block's passes are added up from; every
// kernel and every message of operators belongs to exactly one of them.
#pragma once

#include <cstddef>

#include "evaluate/block/local_work.hpp"

namespace plansearch {

/// Seconds of one micro-batch with nothing hidden and no host CPU in the way.
struct PhaseTimes {
  Seconds forward;
  Seconds input_gradient;
  Seconds weight_gradient;

  [[nodiscard]] Seconds total() const { return forward + input_gradient + weight_gradient; }
  PhaseTimes& operator+=(const PhaseTimes& other);
};

/// Kernels of operator `op`, and messages between its devices while it runs: row statistics,
/// rings. A fused launch is charged to its first operator.
[[nodiscard]] PhaseTimes operator_price(const BlockWork& work, std::size_t op);

/// The messages that bring tensors of `producer` to `consumer`, and their gradients back. kEdge as
/// producer: they enter the block; kNextBlock as consumer: they leave it. The first
/// consumer of those that read a tensor in one layout pays.
[[nodiscard]] PhaseTimes edge_price(const BlockWork& work, const BlockIndex& index,
                                    std::size_t producer, std::size_t consumer);

}  // namespace plansearch
