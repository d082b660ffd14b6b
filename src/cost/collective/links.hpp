// SPDX-License-Identifier: Apache-2.0
// Rates that the links of a machine give one process group while its sister groups send as well.
#pragma once

#include <algorithm>

#include "cost/collective/place.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Measured by itself, or as one of many things a training step does at the same time.
enum class Contention { Isolated, TrainingStep };

/// A tier of fast links as one rank of a group sees it.
struct LocalLink {
  const LocalLinkCurve& curve;
  double share;  ///< of what a rank has, that the group can use
  Bandwidth low_latency;
  Bandwidth low_latency_128;
  Bandwidth simple;

  /// The rate of the fastest protocol, an upper bound for any message over these links.
  [[nodiscard]] Bandwidth fastest() const {
    return std::max({low_latency, low_latency_128, simple});
  }
};

/// The link of a group of ranks `stride` apart. Measured rates of groups come first; a mesh offers
/// a group only the pairs between its members, a shared bus is divided.
[[nodiscard]] LocalLink local_link(const LinkTier& tier, double ranks, int stride);
/// The link of one rank that sends to another.
[[nodiscard]] LocalLink pair_link(const LinkTier& tier, int stride);

/// The network between domains as a group sees it.
struct FabricLink {
  const FabricCurve& curve;
  Bandwidth line;         ///< what the ranks of one domain get from its cards together
  Bandwidth low_latency;  ///< of the flagged protocol
  Bandwidth card;         ///< line rate of the cards of one accelerator
  Contention contention = Contention::Isolated;
};

/// `inner`: the links that the ranks of one domain pass the message on by.
[[nodiscard]] FabricLink fabric_link(const LinkTier& tier, const LocalLink& inner,
                                     const GroupSpan& span, Contention contention);

}  // namespace plansearch
