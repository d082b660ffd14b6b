// SPDX-License-Identifier: Apache-2.0
// List scheduling with weight gradients as filler, under a memory cap.
#pragma once

#include <cstdint>

#include "schedule/order/compute_order.hpp"

namespace plansearch {

/// What a device runs when both are there.
enum class Prefer : std::uint8_t { Backward, Forward };
/// When a weight gradient may fill a gap.
enum class Filler : std::uint8_t {
  Always,
  WhereItFits,  ///< not where something is known to arrive before it would end
};
/// How many micro-batches a device may run ahead of its backwards.
enum class Ahead : std::uint8_t {
  Memory,       ///< as many as fit
  TwiceTheWay,  ///< enough to hide the way to the last stage and back
};

struct ListScheduling {
  Prefer prefer = Prefer::Backward;
  Filler filler = Filler::Always;
  Ahead ahead = Ahead::Memory;
};

/// Every device runs what is there when it is free. A micro-batch is let onto a device only when
/// all its chunks fit under the cap, so that the order always ends.
[[nodiscard]] ComputeOrder list_order(const PipelineShape& shape, const UniformTimes& times,
                                      const ListScheduling& rule);

/// The same order with a whole backward spelled out as input and weight gradient.
[[nodiscard]] ComputeOrder split(ComputeOrder order);

}  // namespace plansearch
