// SPDX-License-Identifier: Apache-2.0
// Computes: rate of the links inside a domain and of the cards between domains, for one group.
// Source: nominal rates of the tiers times fitted efficiencies (profiles of links and fabrics).
// Assumes: all sister groups send at the same time and share evenly; inside a training step the
//          flagged protocol carries a flag with every word, so half the line at most; what goes
//          over domains passes the links inside them too, no faster than their fastest protocol.
// Units: bytes per second.
// Checked by: tests/unit/cost/collective_cost_test.cpp, in_step_collective_test.cpp
#include "cost/collective/links.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace plansearch {
namespace {

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
