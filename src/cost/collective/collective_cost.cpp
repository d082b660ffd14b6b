// SPDX-License-Identifier: Apache-2.0
// Computes: time and wire bytes of a collective on a group, sister groups active at the same time.
// Source: where the group lies (collective/place.hpp), what its links give (collective/links.hpp),
//         the algorithm that a library would pick (collective/select.cpp).
// Assumes: ranks are placed block-wise; every device belongs to one active group.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp; docs/validation.md (collective tables)
#include "cost/collective/collective_cost.hpp"

#include <algorithm>

#include "cost/collective/algorithm.hpp"
#include "cost/collective/measured_time.hpp"

namespace plansearch {

CollectiveCost collective_cost(const Cluster& cluster, CommunicationKind kind, Bytes message,
                               const ProcessGroup& group, Contention contention) {
  CollectiveCost cost;
  if (group.extents.empty() || kind == CommunicationKind::Slice) return cost;
  const GroupSpan span = locate(cluster, group);
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
  CollectiveCost cost;
  if (group.extents.empty()) return cost;
  const GroupSpan span = locate(cluster, group);
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

}  // namespace plansearch
