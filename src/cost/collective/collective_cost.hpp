// SPDX-License-Identifier: Apache-2.0
// How long one collective takes on one process group, with every sister group of the same axis
// active at the same time.
#pragma once

#include <optional>

#include "cost/collective/place.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/communication_kind.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/network.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Expected number of different boxes among `boxes` that hold one of a token's experts, which lie
/// in boxes of equal size one after the other. Balanced routing.
[[nodiscard]] double expected_boxes(const Routing& routing, double boxes);

/// Variance of the number of a token's experts that lie in one of them.
[[nodiscard]] double copies_variance(const Routing& routing, double boxes);

/// Spread of an exchange that sends a token once to each node, and there once to each device.
struct TokenSpread {
  double copies = 1.0;        ///< in the message as it is counted: experts per token
  double nodes = 1.0;         ///< expected, that hold one of them
  double devices = 1.0;       ///< the same
  double fabric_share = 1.0;  ///< of nominal rates, that the dispatcher reaches
  double link_share = 1.0;
};

/// Expected tokens of the fullest of `ranks` ranks that hold the experts between them, over the
/// mean, which is `rows` (every copy of a token counts). 1 where all experts are alike, or with one
/// rank.
[[nodiscard]] double fullest_rank(const Routing& routing, double ranks, double rows);

/// Expected largest of `count` independent standard normal numbers.
[[nodiscard]] double expected_largest(double count);

struct CollectiveCost {
  Seconds time;
  Seconds transfer;          ///< part of `time` that grows with the message; the rest is latency
  Bytes wire_bytes;          ///< sent by one device
  double local_ranks = 1.0;  ///< of the group, in one domain of fast links
  bool one_domain = true;    ///< all ranks are joined by fast links
  bool operator==(const CollectiveCost&) const = default;
};

/// `message` follows the nccl-tests convention: the full buffer of all-reduce, the gathered buffer
/// of all-gather, the buffer before reduce-scatter, what one device holds for all-to-all, what one
/// device sends for send/receive. A group of one costs nothing.
[[nodiscard]] CollectiveCost collective_cost(const Cluster& cluster, CommunicationKind kind,
                                             Bytes message, const ProcessGroup& group,
                                             Contention contention = Contention::Isolated);

/// An all-to-all of tokens that go over nodes; `message` counts a token once per expert.
[[nodiscard]] CollectiveCost exchange_cost(const Cluster& cluster, Bytes message,
                                           const ProcessGroup& group, const TokenSpread& spread,
                                           Contention contention = Contention::Isolated);

/// Exchanges that follow one another: 2 (p - 1) of a ring all-reduce, p - 1 of a gather or scatter,
/// one of a send; all-to-all starts its p - 1 sends together and ends like a tree.
[[nodiscard]] double latency_steps(CommunicationKind kind, double ranks);

/// Time by a table; sizes beyond it follow its ends.
[[nodiscard]] Seconds time_of(const MeasuredTimes& table, Bytes message);

/// Nothing where the tier has no such table, and for groups of several nodes.
[[nodiscard]] std::optional<Seconds> measured_time(const LinkTier& tier, CommunicationKind kind,
                                                   Bytes message, const GroupSpan& span);

}  // namespace plansearch
