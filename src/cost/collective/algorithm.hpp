// SPDX-License-Identifier: Apache-2.0
// An algorithm of collectives: the calls it can carry and the time of each of its protocols. It is
// one file that defines a row, the row's name below, and its line in select.cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "cost/collective/collective_cost.hpp"
#include "cost/collective/place.hpp"
#include "plansearch/communication_kind.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {

/// One message of one group. Sizes follow `collective_cost`.
struct CollectiveCall {
  CommunicationKind kind;
  Bytes size;
  const GroupSpan& span;
  const LocalLink& link;                ///< inside a domain
  const FabricLink* fabric;             ///< between domains; null where the group stays inside one
  const TokenSpread* spread = nullptr;  ///< of tokens that go over nodes
  Bandwidth inner_line{};               ///< the same: nominal, of one device inside a domain
};

using ProtocolTimes = FixedVector<Seconds, 8>;

/// The reach of an algorithm: inside one domain of fast links, or over several.
enum class Reach : std::uint8_t { Domain, Fabric };

struct CollectiveAlgorithm {
  std::string_view name;
  Reach reach = Reach::Domain;
  bool (*carries)(const CollectiveCall& call) = nullptr;
  /// Appends the time of every protocol.
  void (*times)(const CollectiveCall& call, ProtocolTimes& times) = nullptr;
};

extern const CollectiveAlgorithm kRing;
extern const CollectiveAlgorithm kSwitchReduction;
extern const CollectiveAlgorithm kAllToAll;
extern const CollectiveAlgorithm kSend;
extern const CollectiveAlgorithm kFabricRing;
extern const CollectiveAlgorithm kFabricTree;
extern const CollectiveAlgorithm kFabricGatherTree;
extern const CollectiveAlgorithm kFabricAllToAll;
extern const CollectiveAlgorithm kTokenExchange;
extern const CollectiveAlgorithm kFabricTokenExchange;
extern const CollectiveAlgorithm kFabricSend;

/// Least number of ranks for which a switch reduces: two ranks exchange directly.
inline constexpr double kSwitchRanks = 3.0;

/// See collective_cost.hpp.
[[nodiscard]] double latency_steps(CommunicationKind kind, double ranks);

/// Bytes one rank sends over bytes of the full message.
[[nodiscard]] double wire_share(CommunicationKind kind, double ranks);

/// Bytes that one device sends over the network and over the links of its domain.
struct ExchangedBytes {
  Bytes outside;
  Bytes inside;
};
[[nodiscard]] ExchangedBytes exchanged_bytes(Bytes size, const GroupSpan& span,
                                             const TokenSpread& spread);

/// Every rank sends to one other.
[[nodiscard]] constexpr bool is_pairwise(CommunicationKind kind) {
  return kind == CommunicationKind::SendReceive || kind == CommunicationKind::Permute;
}

/// Reduce, gather, or both: what rings carry.
[[nodiscard]] constexpr bool is_ring_kind(CommunicationKind kind) {
  return kind == CommunicationKind::AllReduce || kind == CommunicationKind::AllGather ||
         kind == CommunicationKind::ReduceScatter;
}

/// Filling the pipeline of chunks, which grow with the message; `fill` in us per sqrt(byte).
[[nodiscard]] inline Seconds fill_time(double fill, Bytes moved) {
  return Seconds(fill * 1e-6 * std::sqrt(moved.value()));
}

/// The time of the call with the algorithm and protocol that a library would pick.
[[nodiscard]] Seconds select_time(const CollectiveCall& call);

}  // namespace plansearch
