// SPDX-License-Identifier: Apache-2.0
// What the kernels of one micro-batch wait for at least: messages beside which none of them runs.
#pragma once

#include <memory>
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

struct NetworkWaits {
  std::shared_ptr<const PlacedNetwork> placed;
  std::vector<BlockWaits> blocks;  ///< by index into Network::blocks
};

/// What decides which messages are waited for, and how long.
struct WaitForm {
  DispatcherId dispatcher = kOwnDispatcher;
  bool joined = false;  ///< the order joins forwards and backwards
  bool operator==(const WaitForm&) const = default;
};

/// Of a micro-batch of `sequences` sequences, exactly.
[[nodiscard]] BlockWaits least_waits(const PricingContext& context, const PlacedNetwork& placed,
                                     std::size_t block, const RepeatedShares& repeated,
                                     int sequences, WaitForm form);

/// How long kernels of one copy of a block wait for tokens on their way to experts and back, by
/// the share that hides; where the order joins them: how long these are on their way.
[[nodiscard]] Seconds exchange_time(const PricingContext& context, const PlacedNetwork& placed,
                                    std::size_t block, int sequences, WaitForm form);

}  // namespace plansearch
