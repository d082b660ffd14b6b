// SPDX-License-Identifier: Apache-2.0
// Computes: ranks of a group per domain of fast links, domains, groups that share network cards; the rate of the links
//           inside a domain and of the cards between domains, for one group.
// Source: nested extents (size, stride) against the sizes of the link tiers; nominal rates of the tiers times fitted
//         efficiencies (profiles of links and fabrics).
// Assumes: ranks are placed block-wise, domain after domain; every device is in one sister group. All sister groups send
//          at the same time and share evenly; inside a training step the flagged protocol carries a flag with every
//          word, so half the line at most; what goes over domains passes the links inside them too, no faster than
//          their fastest protocol.
// Units: ranks; bytes per second.
// Checked by: tests/unit/cost/place_test.cpp, collective_cost_test.cpp, in_step_collective_test.cpp
#include "cost/collective/place.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>

namespace plansearch {
namespace {

bool is_local(const LinkTier& tier) {
  return !tier.is_fabric();
}

/// Domains of `domain` ranks that the worst of the blocks of `period` ranks touches.
int domains_touched(int period, int world, int domain) {
  if (world <= domain || domain % period == 0) return 1;
  if (period % domain == 0) return period / domain;
  const int blocks = std::min(world / period, domain / std::gcd(period, domain));
  int most = 0;
  int start = 0;
  for (int block = 0; block < blocks; ++block) {
    most = std::max(most, (start + period - 1) / domain + 1);
    start = (start + period) % domain;
  }
  return most;
}

/// The innermost tier that joins `ranks` consecutive ones.
std::size_t tier_of(const Cluster& cluster, double ranks) {
  for (std::size_t i = 0; i < cluster.tiers.size(); ++i) {
    if (ranks <= cluster.tiers[i].size) return i;
  }
  return cluster.tiers.size() - 1;
}

/// The innermost tier that joins all ranks of every sister group.
std::size_t tier_of(const Cluster& cluster, const ProcessGroup& group) {
  const int world = std::max(group.world, group.period);
  for (std::size_t i = 0; i < cluster.tiers.size(); ++i) {
    if (domains_touched(group.period, world, cluster.tiers[i].size) == 1) return i;
  }
  return cluster.tiers.size() - 1;
}

/// How one extent spreads over domains.
struct Spread {
  double local;
  double nodes;
};

Spread spread(AxisExtent extent, int period, int world, int domain) {
  const double size = extent.size;
  const int touched = domains_touched(period, world, domain);
  if (touched == 1) return {size, 1.0};
  if (extent.stride >= domain) return {1.0, size};
  const bool even = extent.size * extent.stride % domain == 0 && domain % extent.stride == 0;
  const double nodes = even ? size * extent.stride / domain : std::min<double>(size, touched);
  return {size / nodes, nodes};
}

/// Share of line rate. Rings of some but not all ranks of a domain cross rails (cards of other
/// ranks).
double line_efficiency(const FabricCurve& fabric, const GroupSpan& span, Contention contention) {
  double efficiency = fabric.nic_efficiency;
  if (contention == Contention::TrainingStep) {
    efficiency = fabric.step_nic_efficiency.value_or(efficiency);
    if (span.local > 1.0) {
      efficiency *= span.sisters > 1.0 ? fabric.rail_efficiency : fabric.full_node_efficiency;
    }
  }
  return efficiency * std::pow(std::max(span.nodes, 2.0) / 2.0, -fabric.efficiency_decay);
}

const GroupRate* measured_rate(const LinkTier& tier, double ranks, int stride) {
  for (const GroupRate& measured : tier.group_rates) {
    if (measured.stride == stride && measured.ranks == ranks) return &measured;
  }
  return nullptr;
}

/// Share of the links of a rank that a group can use.
double usable_share(const LinkTier& tier, double ranks, const std::optional<Bandwidth>& measured) {
  if (measured) return *measured / tier.link().simple;
  if (!tier.pair_bandwidth) return 1.0;
  return std::min(1.0, (ranks - 1.0) * (*tier.pair_bandwidth / tier.bandwidth));
}

LocalLink shared_link(const LinkTier& tier, double ranks,
                      const std::optional<Bandwidth>& measured) {
  const LocalLinkCurve& c = tier.link();
  const double share = usable_share(tier, ranks, measured);
  const double crowd = c.sharing_exponent > 0.0 ? std::pow(2.0 / ranks, c.sharing_exponent) : 1.0;
  return {c, share, c.low_latency * crowd, c.low_latency_128 * crowd * share,
          c.simple * crowd * share};
}

}  // namespace

GroupSpan locate(const Cluster& cluster, const ProcessGroup& group) {
  GroupSpan span;
  span.ranks = group.size();
  if (!group.extents.empty()) span.stride = group.extents[0].stride;
  span.wide_tier = tier_of(cluster, group);
  span.local_tier = span.wide_tier;
  while (span.local_tier > 0 && !is_local(cluster.tiers[span.local_tier])) --span.local_tier;
  const int domain = cluster.tiers[span.local_tier].size;
  if (is_local(cluster.tiers[span.wide_tier])) {
    span.local = span.ranks;
    span.sisters = domain / span.local;
    return span;
  }
  const int world = std::max(group.world, group.period);
  double block = 1.0;  // ranks from the first to the last of a domain
  for (std::size_t i = 0; i < group.extents.size(); ++i) {
    const AxisExtent& extent = group.extents[i];
    if (span.nodes > 1.0) {
      span.nodes *= extent.size;
      continue;
    }
    const bool last = i + 1 == group.extents.size();
    const Spread part =
        spread(extent, last ? group.period : extent.size * extent.stride, world, domain);
    if (part.local > 1.0) block = part.local * extent.stride;
    span.local *= part.local;
    span.nodes = part.nodes;
  }
  span.sisters = domain / span.local;
  if (span.local > 1.0) span.local_tier = std::min(span.local_tier, tier_of(cluster, block));
  return span;
}

int deciding_ranks(const Cluster& cluster, const DeviceMesh& mesh, AxisSet axes) {
  std::int64_t most = 1;
  for (unsigned factors = mesh.factors_of(axes); factors != 0; factors &= factors - 1) {
    const AxisExtent& extent = mesh.factors[static_cast<std::size_t>(std::countr_zero(factors))];
    const std::int64_t period = std::int64_t{extent.size} * extent.stride;
    for (std::size_t i = 0; i + 1 < cluster.tiers.size(); ++i) {  // the last one joins all ranks
      const std::int64_t domain = cluster.tiers[i].size;
      most = std::max({most, std::lcm(period, domain), domain + 1});
    }
  }
  return static_cast<int>(std::min<std::int64_t>(most, mesh.ranks));
}

bool cost_alike(const Cluster& cluster, const ProcessGroup& one, const ProcessGroup& other) {
  GroupSpan span = locate(cluster, one);
  const GroupSpan wanted = locate(cluster, other);
  // The stride matters only for links that were measured stride by stride.
  if (cluster.tiers[span.local_tier].group_rates.empty()) span.stride = wanted.stride;
  return span == wanted;
}

LocalLink local_link(const LinkTier& tier, double ranks, int stride) {
  const GroupRate* known = measured_rate(tier, ranks, stride);
  return shared_link(tier, ranks, known ? std::optional(known->rate) : std::nullopt);
}

LocalLink pair_link(const LinkTier& tier, int stride) {
  const GroupRate* known = measured_rate(tier, 2.0, stride);
  return shared_link(tier, 2.0,
                     known ? std::optional(known->sends.value_or(known->rate)) : std::nullopt);
}

FabricLink fabric_link(const LinkTier& tier, const LocalLink& inner, const GroupSpan& span,
                       Contention contention) {
  const FabricCurve& curve = tier.fabric();
  const Bandwidth line = tier.bandwidth * span.local * line_efficiency(curve, span, contention);
  Bandwidth flagged = contention == Contention::TrainingStep
                          ? std::min(curve.low_latency, 0.5 * line)
                          : curve.low_latency;
  if (span.local > 1.0) flagged = std::min(flagged, inner.fastest());
  return {curve, line, flagged, tier.bandwidth, contention};
}

}  // namespace plansearch
