// SPDX-License-Identifier: Apache-2.0
// Computes: rates of link tiers (bandwidth, latency) that bring prices of messages to measured
//           times.
// Source: measure/fit/curve_fit; prices of cost/collective, as evidence/validate/kernel_validation asks for them.
// Assumes: constants of one kind move together; flags of small messages between nodes do not depend
//          on the cards; no share of a datasheet rate above one.
// Units: logarithms of ratios; constants in their own.
// Checked by: tests/unit/measure/fit/kernel_fit_test.cpp
#include "measure/fit/kernel_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/units.hpp"
#include "evidence/evidence.hpp"

namespace plansearch {
namespace {

using Logs = std::span<const double>;

void move_link(LocalLinkCurve& curve, Bandwidth nominal, double bandwidth, double latency) {
  const double faster = std::exp(bandwidth);
  const double later = std::exp(latency);
  const auto rate = [&](Bandwidth& value) {
    value = std::min(value * faster, std::max(value, nominal));
  };
  rate(curve.low_latency);
  rate(curve.low_latency_128);
  rate(curve.simple);
  if (curve.switch_reduction) rate(*curve.switch_reduction);
  for (Seconds* time : {&curve.base, &curve.step, &curve.low_latency_128_base, &curve.simple_base,
                        &curve.simple_step, &curve.pairwise_base, &curve.switch_base}) {
    *time *= later;
  }
}

/// Prior of links of which nothing else is known: what differs from one generation to the next
/// beside rate and latency. Small messages, reduction in the switch, its start, and every further
/// step.
constexpr std::size_t kShapes = 4;
void move_shape(LocalLinkCurve& curve, Logs logs) {
  curve.low_latency = curve.low_latency * std::exp(logs[0]);
  curve.low_latency_128 = curve.low_latency_128 * std::exp(logs[0]);
  if (curve.switch_reduction) *curve.switch_reduction = *curve.switch_reduction * std::exp(logs[1]);
  curve.switch_base *= std::exp(logs[2]);
  curve.step *= std::exp(logs[3]);
  curve.simple_step *= std::exp(logs[3]);
}

void move_link(FabricCurve& curve, Bandwidth /*nominal*/, double bandwidth, double latency) {
  const double later = std::exp(latency);
  curve.nic_efficiency = moved_share(curve.nic_efficiency, bandwidth);
  if (curve.step_nic_efficiency) {
    curve.step_nic_efficiency = moved_share(*curve.step_nic_efficiency, bandwidth);
  }
  curve.send_efficiency = moved_share(curve.send_efficiency, bandwidth);
  for (Seconds* time : {&curve.hop_low_latency, &curve.hop, &curve.ring_step,
                        &curve.ring_step_low_latency, &curve.send, &curve.all_to_all_peer}) {
    *time *= later;
  }
}

/// The narrowest tier that holds the group of a row.
std::size_t tier_of(const KernelRow& row, const Cluster& cluster) {
  const auto number = [&](const char* column) {
    const auto cell = row.cells.find(column);
    if (cell == row.cells.end()) return 1.0;
    return parse_number(cell->second).value_or(1.0);
  };
  const double nodes = number("nodes");
  const double ranks = std::max(number("ranks"), number("gpus"));
  const double span = nodes > 1.0 ? std::max(ranks, nodes * cluster.accelerators_per_node) : ranks;
  std::size_t tier = 0;
  while (tier + 1 < cluster.tiers.size() && cluster.tiers[tier].size < span) ++tier;
  return tier;
}

CurveChange bandwidth_change(const LinkTier& base, const LinkTier& own, double spread) {
  const std::string part = "tier " + base.name;
  if (base.is_fabric()) {
    return {part,  "nic_efficiency", "", base.fabric().nic_efficiency, own.fabric().nic_efficiency,
            spread};
  }
  return {part,  "simple", "byte_per_s", base.link().simple.value(), own.link().simple.value(),
          spread};
}

CurveChange latency_change(const LinkTier& base, const LinkTier& own, double spread) {
  const std::string part = "tier " + base.name;
  if (base.is_fabric()) {
    return {part, "hop", "s", base.fabric().hop.value(), own.fabric().hop.value(), spread};
  }
  return {part, "base", "s", base.link().base.value(), own.link().base.value(), spread};
}

/// Whether the constants of links can say what was measured.
bool follows_law(const GroupProblem& problem) {
  try {
    return fit_group(problem).group.scatter <= kLargeScatter;
  } catch (const FitRefusal&) {
    return false;
  }
}

/// Messages, and how many of them ran on each tier.
struct MessageRows {
  KernelSample sample;
  std::map<std::size_t, std::size_t> rows_of;
};

MessageRows messages_of(const std::vector<KernelTable>& tables, const Cluster& base,
                        std::vector<std::string>& unused) {
  std::map<std::size_t, std::size_t> rows_of;
  const auto count = [&](const KernelRow& row) {
    if (row.measured && row.predicted) ++rows_of[tier_of(row, base)];
    return true;
  };
  const KernelSample sample(tables, TableKind::Collective, base, count, unused);
  return {sample, rows_of};
}

/// Messages, the tiers that they move, and their usual scatter.
struct LinkGroup {
  MessageRows messages;
  std::vector<std::size_t> tiers;
  double usual = kLeastScatter;
};

/// Throws FitRefusal for a tier with too few rows.
LinkGroup link_group(const std::vector<KernelTable>& tables, const Cluster& base,
                     std::vector<std::string>& unused) {
  LinkGroup group{messages_of(tables, base, unused), {}};
  for (const auto& [tier, rows] : group.messages.rows_of) {
    if (rows < kFewestRuns) {
      throw FitRefusal{fmt::format("tier {}: {}", base.tiers[tier].name, too_few_rows(rows)),
                       "measure more message sizes"};
    }
    group.tiers.push_back(tier);
    const auto& residual = base.tiers[tier].is_fabric() ? base.tiers[tier].fabric().residual
                                                        : base.tiers[tier].link().residual;
    group.usual = std::max(group.usual, usual_scatter(residual, base));
  }
  return group;
}

GroupProblem problem_of(const LinkGroup& links, const Cluster& base,
                        const SitePopulation& population, Carried carried) {
  const bool shaped =
      carried == Carried::WholeCurve && !base.tiers.front().is_fabric() && links.tiers.front() == 0;
  const auto apply = [&base, shaped, tiers = links.tiers](Logs logs) {
    Cluster cluster = base;
    if (shaped) {
      move_shape(std::get<LocalLinkCurve>(cluster.tiers.front().curve),
                 logs.subspan(2 * tiers.size(), kShapes));
    }
    for (std::size_t i = 0; i < tiers.size(); ++i) {
      LinkTier& tier = cluster.tiers[tiers[i]];
      std::visit(
          [&](auto& curve) { move_link(curve, tier.bandwidth, logs[2 * i], logs[2 * i + 1]); },
          tier.curve);
    }
    return cluster;
  };
  const std::size_t parameters = 2 * links.tiers.size() + (shaped ? kShapes : 0);
  return {"collectives", links.messages.sample, parameters,  apply,
          links.usual,   population.between,    kOtherLinks, carried};
}

}  // namespace

std::optional<double> link_error(const std::vector<KernelTable>& tables, const Cluster& base,
                                 const SitePopulation& population) {
  try {
    std::vector<std::string> unused;
    const LinkGroup links = link_group(tables, base, unused);
    if (links.messages.sample.measured().empty()) return std::nullopt;
    return fit_group(problem_of(links, base, population, Carried::WholeCurve)).group.scatter;
  } catch (const FitRefusal&) {
    return std::nullopt;
  }
}

void fit_links(const std::vector<KernelTable>& tables, const SitePopulation& population,
               Carried carried, KernelFit& fit) {
  const Cluster base = fit.cluster;
  const LinkGroup links = link_group(tables, base, fit.unused);
  if (links.messages.sample.measured().empty()) return;
  const std::vector<std::size_t>& tiers = links.tiers;
  const double usual = links.usual;
  const GroupProblem problem = problem_of(links, base, population, carried);
  if (carried == Carried::WholeCurve && !follows_law(problem) && keep_measured_times(tables, fit)) {
    return;
  }
  GroupFit found = fit_group(problem);
  const CurveFit& own = found.curve;
  fit.cluster = problem.apply(own.moved);
  KernelGroupFit& group = found.group;
  if (carried == Carried::WholeCurve && group.held_out) {
    for (const std::size_t tier : tiers) {
      std::visit([&](auto& curve) { curve.residual = group.held_out->residual; },
                 fit.cluster.tiers[tier].curve);
    }
  }
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const LinkTier& before = base.tiers[tiers[i]];
    LinkTier& after = fit.cluster.tiers[tiers[i]];
    std::visit([&](auto& curve) { widen(curve.residual, own.scatter, usual); }, after.curve);
    group.changes.push_back(bandwidth_change(before, after, own.spread[2 * i]));
    group.changes.push_back(latency_change(before, after, own.spread[2 * i + 1]));
    fit.tiers.push_back(before.name);
  }
  fit.groups.push_back(std::move(found.group));
}

}  // namespace plansearch
