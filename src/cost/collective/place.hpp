// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a process group lie on the machine.
#pragma once

#include <algorithm>
#include <cstddef>

#include "plansearch/cluster.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// A group on domains of fast links: nodes, or the racks that one switch joins.
struct GroupSpan {
  double ranks = 1.0;
  double local = 1.0;    ///< in one domain; the average where the domains hold unequal numbers
  double nodes = 1.0;    ///< domains
  int stride = 1;        ///< between neighbours of the group
  double sisters = 1.0;  ///< groups that share the network cards of a domain, this one included
  std::size_t local_tier = 0;  ///< innermost tier that joins the ranks of one domain
  std::size_t wide_tier = 0;   ///< innermost tier that joins all ranks
  bool operator==(const GroupSpan&) const = default;
};

/// The span of the sister group that crosses most domains.
[[nodiscard]] GroupSpan locate(const Cluster& cluster, const ProcessGroup& group);

/// How many of the ranks of a mesh decide where groups along these axes lie: on a larger world with
/// the same factors they lie the same.
[[nodiscard]] int deciding_ranks(const Cluster& cluster, const DeviceMesh& mesh, AxisSet axes);

/// Whether every message takes as long over one group as over the other.
[[nodiscard]] bool cost_alike(const Cluster& cluster, const ProcessGroup& one,
                              const ProcessGroup& other);

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
