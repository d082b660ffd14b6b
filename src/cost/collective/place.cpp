// SPDX-License-Identifier: Apache-2.0
// Computes: ranks of a group per domain of fast links, domains, groups that share network cards.
// Source: nested extents (size, stride) against the sizes of the link tiers.
// Assumes: ranks are placed block-wise, domain after domain; every device is in one sister group.
// Units: ranks.
// Checked by: tests/unit/cost/place_test.cpp
#include "cost/collective/place.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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

bool cost_alike(const Cluster& cluster, const ProcessGroup& one, const ProcessGroup& other) {
  GroupSpan span = locate(cluster, one);
  const GroupSpan wanted = locate(cluster, other);
  // The stride matters only for links that were measured stride by stride.
  if (cluster.tiers[span.local_tier].group_rates.empty()) span.stride = wanted.stride;
  return span == wanted;
}

}  // namespace plansearch
