// SPDX-License-Identifier: Apache-2.0
// Computes: time and wire bytes of a collective on a group, sister groups active at the same time.
// Source: ring, double tree and in-switch reduction as NCCL builds them; three protocols (LL,
//         LL128, Simple); Hockney latency-bandwidth terms with a pipeline-fill term.
// Assumes: ranks are placed block-wise; every device belongs to one active group of the axis.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp; docs/validation.md (collective tables).
#include "cost/collective_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "cost/collective/place.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Sharpness of the switch from one protocol to the next.
constexpr double kProtocolKnee = 8.0;
constexpr double kMicrosecond = 1e-6;
/// Two ranks exchange directly: the switch reduces from here on.
constexpr double kSwitchRanks = 3.0;

const LocalLinkCurve* local_curve(const LinkTier& tier) {
  return std::get_if<LocalLinkCurve>(&tier.curve);
}

/// Bytes one rank sends over bytes of the full message.
double wire_share(CommunicationKind kind, double ranks) {
  switch (kind) {
    case CommunicationKind::AllReduce:
      return 2.0 * (ranks - 1.0) / ranks;
    case CommunicationKind::SendReceive:
    case CommunicationKind::Permute:
      return 1.0;
    default:
      return (ranks - 1.0) / ranks;
  }
}

/// A local tier as a group of `ranks` sees it, in bytes per second.
struct LocalLink {
  const LocalLinkCurve& curve;
  double low_latency;
  double low_latency_128;
  double simple;
};

/// Meshes offer a group only the pairs between its members, shared buses divide.
LocalLink local_link(const LinkTier& tier, double ranks) {
  const LocalLinkCurve& c = *local_curve(tier);
  const double pairs = tier.pair_bandwidth
                           ? std::min(1.0, (ranks - 1.0) * (*tier.pair_bandwidth / tier.bandwidth))
                           : 1.0;
  const double crowd = c.sharing_exponent > 0.0 ? std::pow(2.0 / ranks, c.sharing_exponent) : 1.0;
  return {c, c.low_latency.value() * crowd, c.low_latency_128.value() * crowd * pairs,
          c.simple.value() * crowd * pairs};
}

/// Every rank sends to one other.
bool is_pairwise(CommunicationKind kind) {
  return kind == CommunicationKind::SendReceive || kind == CommunicationKind::Permute;
}

double soft_minimum(std::span<const double> times) {
  const double low = *std::min_element(times.begin(), times.end());
  double sum = 0.0;
  for (const double time : times) sum += std::pow(time / low, -kProtocolKnee);
  return low * std::pow(sum, -1.0 / kProtocolKnee);
}

/// Rings, and the switch where it can reduce.
double local_ring_time(const LocalLink& link, CommunicationKind kind, double size, double ranks) {
  const LocalLinkCurve& c = link.curve;
  const double moved = size * wire_share(kind, ranks) + c.local_copy * size / ranks;
  const double steps = latency_steps(kind, ranks);
  const double latency = c.base.value() + c.step.value() * steps;
  const double fill = c.fill * kMicrosecond * std::sqrt(moved);
  const double late = latency + c.low_latency_128_base.value();
  std::array<double, 4> times{
      latency + moved / link.low_latency, late + moved / link.low_latency_128,
      late + c.simple_base.value() + c.simple_step.value() * steps + fill + moved / link.simple,
      0.0};
  std::size_t count = 3;
  if (kind == CommunicationKind::AllReduce && c.switch_reduction && ranks >= kSwitchRanks) {
    times[count++] = latency + c.switch_base.value() + fill +
                     size * (1.0 + 1.0 / ranks) / c.switch_reduction->value();
  }
  return soft_minimum(std::span(times).first(count));
}

/// Every pair of ranks has channels of its own.
double local_all_to_all_time(const LocalLink& link, double size, double ranks) {
  const LocalLinkCurve& c = link.curve;
  const double moved =
      size * wire_share(CommunicationKind::AllToAll, ranks) + c.local_copy * size / ranks;
  const double latency =
      c.base.value() + c.step.value() * latency_steps(CommunicationKind::AllToAll, ranks);
  const std::array<double, 2> times{latency + moved / (link.low_latency * (ranks - 1.0)),
                                    latency + c.pairwise_base.value() +
                                        c.fill * kMicrosecond * std::sqrt(moved) +
                                        moved / link.simple};
  return soft_minimum(times);
}

/// One pair: a mesh gives it the links between the two.
double local_send_time(const LinkTier& tier, double size) {
  const LocalLink pair = local_link(tier, 2.0);
  const LocalLinkCurve& c = pair.curve;
  return c.base.value() + c.step.value() +
         std::min(size / pair.low_latency, c.pairwise_base.value() + size / pair.simple);
}

Seconds local_time(const LinkTier& tier, CommunicationKind kind, Bytes message, double ranks) {
  const double size = message.value();
  if (is_pairwise(kind)) return Seconds(local_send_time(tier, size));
  const LocalLink link = local_link(tier, ranks);
  return Seconds(kind == CommunicationKind::AllToAll ? local_all_to_all_time(link, size, ranks)
                                                     : local_ring_time(link, kind, size, ranks));
}

/// Everything the formulas across nodes need, in seconds and bytes per second.
struct Fabric {
  const FabricCurve& curve;
  const LocalLinkCurve& local;
  double local_simple;  ///< what one rank sustains inside its domain
  double line;          ///< what the group's ranks of one node get from the NICs together
  double low_latency;   ///< bytes per second of the flagged protocol, half the line at most
  Setting setting;
};

/// Bytes the busiest node of a ring over nodes passes on, over bytes of the message.
double node_ring_share(double rounds, double nodes) {
  return rounds * (nodes - 1.0) / nodes;
}

double all_to_all_time(const Fabric& f, const GroupSpan& p, double size) {
  const double remote = p.ranks - p.local;
  const double inside = (p.local - 1.0) / p.ranks * size / f.local_simple;
  const double outside = remote / p.ranks * size * p.local / f.line;
  return f.local.base.value() + f.curve.hop.value() + f.curve.all_to_all_peer.value() * remote +
         std::max(inside, outside);
}

double tree_time(const Fabric& f, const GroupSpan& p, double size) {
  const double levels = std::log2(p.nodes);
  const double root = kMicrosecond * std::sqrt(size);
  const double base = f.local.base.value() + 2.0 * (p.local - 1.0) * f.local.step.value();
  const double inside = f.local.switch_reduction && p.local >= kSwitchRanks
                            ? size * (1.0 + 1.0 / p.local) / f.local.switch_reduction->value()
                            : 2.0 * (p.local - 1.0) / p.local * size / f.local_simple;
  // A double tree: with two nodes each sends the message once, an inner node of more sends twice.
  // Steps of real runs show the average over nodes instead: their skew hides the busiest one.
  const double sent =
      f.setting == Setting::InStep ? node_ring_share(2.0, p.nodes) : (p.nodes > 2.0 ? 2.0 : 1.0);
  const double outside = sent * size / f.line;
  const double quick = base + 2.0 * levels * f.curve.hop_low_latency.value() +
                       wire_share(CommunicationKind::AllReduce, p.ranks) * size / f.low_latency;
  const double bulk =
      base + 2.0 * levels * f.curve.hop.value() + std::max(inside, outside) +
      root * (f.curve.fill + f.curve.forward_fill * 2.0 * std::max(0.0, levels - 1.0));
  return std::min(quick, bulk);
}

double ring_time(const Fabric& f, const GroupSpan& p, CommunicationKind kind, double size) {
  const double rounds = kind == CommunicationKind::AllReduce ? 2.0 : 1.0;
  const double moved = wire_share(kind, p.ranks) * size;
  const double outside = f.setting == Setting::InStep
                             ? node_ring_share(rounds, p.nodes) * size / f.line
                             : moved / f.line;
  const double quick = f.local.base.value() + rounds * (p.ranks - p.nodes) * f.local.step.value() +
                       rounds * (p.nodes - 1.0) * f.curve.hop_low_latency.value() +
                       moved / f.low_latency;
  const double bulk = f.local.base.value() + f.curve.hop.value() +
                      f.curve.ring_step.value() * rounds * (p.ranks - 1.0) +
                      f.curve.fill * kMicrosecond * std::sqrt(size) +
                      std::max(outside, moved / f.local_simple);
  return std::min(quick, bulk);
}

/// Bytes per second the NICs give the ranks of one group in one node, its share when all sister
/// groups are active. Rings of some but not all ranks of a node leave their rail.
double line_rate(const LinkTier& tier, const FabricCurve& fabric, const GroupSpan& p,
                 Setting setting) {
  double efficiency = fabric.nic_efficiency;
  if (setting == Setting::InStep) {
    efficiency = fabric.step_nic_efficiency.value_or(efficiency);
    if (p.local > 1.0) {
      efficiency *= p.sisters > 1.0 ? fabric.rail_efficiency : fabric.full_node_efficiency;
    }
  }
  const double decay = std::pow(std::max(p.nodes, 2.0) / 2.0, -fabric.efficiency_decay);
  return tier.bandwidth.value() * p.local * efficiency * decay;
}

Seconds wide_time(const Cluster& cluster, CommunicationKind kind, Bytes message, const GroupSpan& p,
                  Setting setting) {
  const LinkTier& tier = cluster.tiers[p.wide_tier];
  const LinkTier& inner = cluster.tiers[p.local_tier];
  const auto* fabric = std::get_if<FabricCurve>(&tier.curve);
  const LocalLinkCurve* local = local_curve(inner);
  PLANSEARCH_CHECK(fabric != nullptr && local != nullptr);
  const double simple = local_link(inner, std::max(2.0, p.local)).simple;
  const double line = line_rate(tier, *fabric, p, setting);
  const double flagged = fabric->low_latency.value();
  const Fabric f{*fabric,
                 *local,
                 simple,
                 line,
                 setting == Setting::InStep ? std::min(flagged, 0.5 * line) : flagged,
                 setting};
  const double size = message.value();
  switch (kind) {
    case CommunicationKind::SendReceive:
    case CommunicationKind::Permute:
      return fabric->send + message / (tier.bandwidth * fabric->send_efficiency);
    case CommunicationKind::AllToAll:
      return Seconds(all_to_all_time(f, p, size));
    case CommunicationKind::AllReduce:
      return Seconds(std::min(tree_time(f, p, size), ring_time(f, p, kind, size)));
    default:
      return Seconds(ring_time(f, p, kind, size));
  }
}

/// The bytes of one device at the full rate of the narrowest link on their way.
Seconds transfer_time(const Cluster& cluster, Bytes wire, const GroupSpan& p, Setting setting) {
  const LinkTier& inner = cluster.tiers[p.local_tier];
  const double local = local_link(inner, std::max(2.0, p.local)).simple;
  if (p.nodes <= 1.0) return Seconds(wire.value() / local);
  const LinkTier& tier = cluster.tiers[p.wide_tier];
  const double line = line_rate(tier, std::get<FabricCurve>(tier.curve), p, setting);
  return Seconds(wire.value() / std::min(local, line));
}

}  // namespace

double latency_steps(CommunicationKind kind, double ranks) {
  switch (kind) {
    case CommunicationKind::AllReduce:
      return 2.0 * (ranks - 1.0);
    case CommunicationKind::AllGather:
    case CommunicationKind::ReduceScatter:
      return ranks - 1.0;
    case CommunicationKind::AllToAll:
      return ranks > 1.0 ? std::log2(ranks) + 1.0 : 0.0;
    case CommunicationKind::SendReceive:
    case CommunicationKind::Permute:
      return ranks > 1.0 ? 1.0 : 0.0;
    case CommunicationKind::Slice:
      return 0.0;
  }
  throw InternalError("unknown collective");
}

CollectiveCost collective_cost(const Cluster& cluster, CommunicationKind kind, Bytes message,
                               const ProcessGroup& group, Setting setting) {
  CollectiveCost cost;
  if (group.extents.empty() || kind == CommunicationKind::Slice) return cost;
  const GroupSpan placement = locate(cluster, group);
  cost.tier = placement.wide_tier;
  cost.wire_bytes = message * wire_share(kind, placement.ranks);
  if (const auto* fabric = std::get_if<FabricCurve>(&cluster.tiers[placement.wide_tier].curve)) {
    cost.jitter_p90 = fabric->jitter_p90;
  }
  cost.time = placement.nodes > 1.0
                  ? wide_time(cluster, kind, message, placement, setting)
                  : local_time(cluster.tiers[placement.local_tier], kind, message, placement.ranks);
  cost.transfer = std::min(cost.time, transfer_time(cluster, cost.wire_bytes, placement, setting));
  return cost;
}

}  // namespace plansearch
