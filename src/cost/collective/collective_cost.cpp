// SPDX-License-Identifier: Apache-2.0
// Computes: time and wire bytes of a collective on a group, sister groups active at the same time.
// Source: where the group lies and what its links give (collective/place.hpp), the algorithm that a library would pick
//         (collective/select.cpp), or measured times of the profile (`measured` of a link).
// Assumes: ranks are placed block-wise; every device belongs to one active group. Between two measured sizes the
//          logarithm of time is linear in that of the size; below the smallest it is latency, above the largest time
//          grows with the message.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp, measured_time_test.cpp; docs/validation.md (collective tables)
#include "cost/collective/collective_cost.hpp"

#include <algorithm>
#include <cmath>

#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

CollectiveCost free_call(const GroupSpan& span) {
  return {.time = {},
          .transfer = {},
          .wire_bytes = {},
          .local_ranks = span.local,
          .one_domain = span.nodes <= 1.0};
}

}  // namespace

CollectiveCost collective_cost(const Cluster& cluster, CommunicationKind kind, Bytes message,
                               const ProcessGroup& group, Contention contention) {
  const GroupSpan span = locate(cluster, group);
  CollectiveCost cost = free_call(span);
  if (group.extents.empty() || kind == CommunicationKind::Slice) return cost;
  const LinkTier& inner = cluster.tiers[span.local_tier];
  cost.wire_bytes = message * wire_share(kind, span.ranks);
  if (const auto time = measured_time(inner, kind, message, span)) {
    cost.time = *time;
    cost.transfer = *time;
  } else if (span.nodes <= 1.0) {
    const LocalLink link = is_pairwise(kind) ? pair_link(inner, span.stride)
                                             : local_link(inner, span.ranks, span.stride);
    cost.time = select_time({kind, message, span, link, nullptr});
    cost.transfer = cost.wire_bytes / local_link(inner, span.ranks, span.stride).simple;
  } else {
    const LocalLink link = local_link(inner, std::max(2.0, span.local), span.stride);
    const FabricLink fabric = fabric_link(cluster.tiers[span.wide_tier], link, span, contention);
    cost.time = select_time({kind, message, span, link, &fabric});
    cost.transfer = cost.wire_bytes / std::min(link.simple, fabric.line);
  }
  cost.transfer = std::min(cost.time, cost.transfer);
  return cost;
}

CollectiveCost exchange_cost(const Cluster& cluster, Bytes message, const ProcessGroup& group,
                             const TokenSpread& spread, Contention contention) {
  const GroupSpan span = locate(cluster, group);
  CollectiveCost cost = free_call(span);
  if (group.extents.empty()) return cost;
  const LinkTier& inner = cluster.tiers[span.local_tier];
  const LinkTier& outer = cluster.tiers[span.wide_tier];
  const LocalLink link = local_link(inner, std::max(2.0, span.local), span.stride);
  const ExchangedBytes bytes = exchanged_bytes(message, span, spread);
  cost.wire_bytes = bytes.outside + bytes.inside;
  CollectiveCall call{
      CommunicationKind::AllToAll, message, span, link, nullptr, &spread, inner.bandwidth};
  const auto time = [&](Bytes size) {
    call.size = size;
    return select_time(call);
  };
  if (span.nodes <= 1.0) {
    cost.time = time(message);
    cost.transfer = cost.time - time(Bytes(0));
  } else {
    const FabricLink fabric = fabric_link(outer, link, span, contention);
    call.fabric = &fabric;
    cost.time = time(message);
    cost.transfer = cost.time - time(Bytes(0));
  }
  return cost;
}

Seconds time_of(const MeasuredTimes& table, Bytes message) {
  if (message <= table.sizes.front()) return table.times.front();
  if (message >= table.sizes.back()) return table.times.back() * (message / table.sizes.back());
  const auto above = std::ranges::lower_bound(table.sizes, message);
  const auto i = static_cast<std::size_t>(above - table.sizes.begin());
  const double share =
      std::log(message / table.sizes[i - 1]) / std::log(table.sizes[i] / table.sizes[i - 1]);
  return table.times[i - 1] * std::pow(table.times[i] / table.times[i - 1], share);
}

std::optional<Seconds> measured_time(const LinkTier& tier, CommunicationKind kind, Bytes message,
                                     const GroupSpan& span) {
  const auto* curve = std::get_if<LocalLinkCurve>(&tier.curve);
  if (curve == nullptr || curve->measured.empty() || span.nodes > 1.0) return std::nullopt;
  for (const MeasuredTimes& table : curve->measured) {
    if (table.ranks == span.ranks && table.kind == to_text(kind)) return time_of(table, message);
  }
  return std::nullopt;
}

}  // namespace plansearch
