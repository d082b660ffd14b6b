// SPDX-License-Identifier: Apache-2.0
// What the kernels of one micro-batch wait for at least: messages beside which none of them runs.
#pragma once

#include <vector>

#include "evaluate/block/local_work.hpp"

namespace plansearch {

/// Of one copy of one block on one device.
struct BlockWaits {
  Seconds forward;
  Seconds backward;                ///< both gradients
  Seconds weight_gradient;         ///< the part of `backward` that a schedule may run later
  ByRecompute<Seconds> recompute;  ///< forward messages that are sent again

  void add(const BlockWaits& other, double copies);
};

/// By index into Network::blocks.
using NetworkWaits = std::vector<BlockWaits>;

/// Of a micro-batch of `sequences` sequences, exactly.
[[nodiscard]] BlockWaits least_waits(const PricingContext& context, const PlacedNetwork& placed,
                                     std::size_t block, const RepeatedShares& repeated,
                                     int sequences);

}  // namespace plansearch
