// SPDX-License-Identifier: Apache-2.0
// Computes: rates of matrix products (per format: share of peak, share of memory bandwidth) and of
//           link tiers (bandwidth, latency) that bring kernel prices to measured times.
// Source: studies/curve_fit; prices of cost/, as studies/kernel_validation asks for them.
// Assumes: constants of one kind move together; how long a call takes to start belongs to the
//          benchmark and is fitted beside the rates, but not carried over; flags of small messages
//          between nodes are no matter of the cards; no share of a datasheet rate above one.
// Units: logarithms of ratios; constants in their own.
// Checked by: tests/unit/studies/kernel_fit_test.cpp
#include "studies/fit/kernel_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "studies/fit/kernel_group.hpp"
#include "studies/fit/measured_links.hpp"
#include "studies/fit/stream_fit.hpp"
#include "studies/validate/site_fit.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kFp8Block = "fp8_block";
/// Parameters of products: rates and launch, or these, the start of a tile and rows off vectors.
constexpr std::size_t kRates = 3;
constexpr std::size_t kWhole = 5;

using Logs = std::span<const double>;
MatmulCurve& matmul_curve(Accelerator& chip, const std::string& format) {
  if (format == kFp8Block) return chip.kernels.matmul_fp8_block.value();
  const auto type = static_cast<std::size_t>(*parse_data_type(format));
  return chip.kernels.matmul.at(type).value();
}

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

std::string format_of(const KernelRow& row) {
  const auto dtype = row.cells.find("dtype");
  if (dtype == row.cells.end()) return {};
  const auto type = parse_data_type(dtype->second);
  return type ? std::string(to_text(*type)) : dtype->second;
}

/// The constants of a curve of products in the order of the parameters.
void move_matmul(MatmulCurve& curve, Logs logs) {
  curve.flop_efficiency = moved_share(curve.flop_efficiency, logs[0]);
  curve.byte_efficiency = moved_share(curve.byte_efficiency, logs[1]);
  curve.launch *= std::exp(logs[2]);
  if (logs.size() == kRates) return;
  curve.prologue_depth *= std::exp(logs[3]);
  curve.unaligned_rows = std::max(1.0, curve.unaligned_rows * std::exp(logs[4]));
}

std::vector<CurveChange> matmul_changes(const std::string& part, const MatmulCurve& before,
                                        const MatmulCurve& after,
                                        const std::vector<double>& spread) {
  std::vector<CurveChange> changes{
      {part, "flop_efficiency", "", before.flop_efficiency, after.flop_efficiency, spread[0]},
      {part, "byte_efficiency", "", before.byte_efficiency, after.byte_efficiency, spread[1]}};
  if (spread.size() == kRates) return changes;
  changes.push_back({part, "launch", "s", before.launch.value(), after.launch.value(), spread[2]});
  changes.push_back(
      {part, "prologue_depth", "", before.prologue_depth, after.prologue_depth, spread[3]});
  changes.push_back(
      {part, "unaligned_rows", "", before.unaligned_rows, after.unaligned_rows, spread[4]});
  return changes;
}

void fit_format(const std::string& format, const std::vector<KernelTable>& tables,
                const SitePopulation& population, Carried carried, KernelFit& fit) {
  const std::string part = "matmul " + format;
  const Cluster base = fit.cluster;
  KernelSample sample;
  for (const KernelTable& table : tables) {
    if (table.kind != TableKind::Matmul) continue;
    sample.add(
        table, base, [&](const KernelRow& row) { return format_of(row) == format; }, fit.unused);
  }
  if (sample.measured().empty()) return;  // the rows not used say why
  const auto apply = [&](Logs logs) {
    Cluster cluster = base;
    move_matmul(matmul_curve(cluster.accelerator, format), logs);
    return cluster;
  };
  Cluster moved = base;
  MatmulCurve& curve = matmul_curve(moved.accelerator, format);
  const MatmulCurve before = curve;
  const bool whole = carried == Carried::WholeCurve;
  const double usual = usual_scatter(before.residual, base);
  GroupFit own = fit_group({part, sample, whole ? kWhole : kRates, apply, usual, population.between,
                            whole ? kOtherLinks : kOtherKernels, carried});
  Cluster after = apply(own.curve.moved);
  const MatmulCurve& fitted = matmul_curve(after.accelerator, format);
  if (whole) {
    curve = fitted;
    if (own.group.held_out) curve.residual = own.group.held_out->residual;
  } else {
    curve.flop_efficiency = fitted.flop_efficiency;
    curve.byte_efficiency = fitted.byte_efficiency;
    widen(curve.residual, own.curve.scatter, usual);
  }
  own.group.changes = matmul_changes(part, before, curve, own.curve.spread);
  fit.cluster = std::move(moved);
  fit.groups.push_back(std::move(own.group));
  fit.formats.push_back(format);
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
  MessageRows found;
  const auto count = [&](const KernelRow& row) {
    if (row.measured && row.predicted) ++found.rows_of[tier_of(row, base)];
    return true;
  };
  for (const KernelTable& table : tables) {
    if (table.kind == TableKind::Collective) found.sample.add(table, base, count, unused);
  }
  return found;
}

void fit_links(const std::vector<KernelTable>& tables, const SitePopulation& population,
               Carried carried, KernelFit& fit) {
  const Cluster base = fit.cluster;
  const auto [sample, rows_of] = messages_of(tables, base, fit.unused);
  if (sample.measured().empty()) return;
  std::vector<std::size_t> tiers;
  double usual = kLeastScatter;
  for (const auto& [tier, rows] : rows_of) {
    if (rows < kFewestRuns) {
      throw FitRefusal{fmt::format("tier {}: {} row{}: a fit needs {}", base.tiers[tier].name, rows,
                                   rows == 1 ? "" : "s", kFewestRuns),
                       "measure more message sizes"};
    }
    tiers.push_back(tier);
    const auto& residual = base.tiers[tier].is_fabric() ? base.tiers[tier].fabric().residual
                                                        : base.tiers[tier].link().residual;
    usual = std::max(usual, usual_scatter(residual, base));
  }
  const auto apply = [&](Logs logs) {
    Cluster cluster = base;
    for (std::size_t i = 0; i < tiers.size(); ++i) {
      LinkTier& tier = cluster.tiers[tiers[i]];
      std::visit(
          [&](auto& curve) { move_link(curve, tier.bandwidth, logs[2 * i], logs[2 * i + 1]); },
          tier.curve);
    }
    return cluster;
  };
  const GroupProblem problem{"collectives",      sample,      2 * tiers.size(), apply, usual,
                             population.between, kOtherLinks, carried};
  if (carried == Carried::WholeCurve && !follows_law(problem) && keep_measured_times(tables, fit)) {
    return;
  }
  GroupFit found = fit_group(problem);
  const CurveFit& own = found.curve;
  fit.cluster = apply(own.moved);
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

std::set<std::string> formats_in(const std::vector<KernelTable>& tables) {
  std::set<std::string> formats;
  for (const KernelTable& table : tables) {
    if (table.kind != TableKind::Matmul) continue;
    for (const io::CsvRow& row : table.table.rows()) {
      KernelRow cells;
      cells.cells.emplace("dtype", table.table.text(row, "dtype"));
      formats.insert(format_of(cells));
    }
  }
  return formats;
}

}  // namespace

KernelFit fit_kernels(const std::vector<KernelTable>& tables, const Cluster& base,
                      const SitePopulation& population, Carried carried) {
  KernelFit fit;
  fit.cluster = base;
  for (const std::string& format : formats_in(tables)) {
    fit_format(format, tables, population, carried, fit);
  }
  fit_streams(tables, population, carried, fit);
  fit_links(tables, population, carried, fit);
  if (!tables.empty() && fit.groups.empty()) {
    throw FitRefusal{
        fmt::format("no measured kernel can be predicted on {}{}{}", base.name,
                    fit.unused.empty() ? "" : ": ", fit.unused.empty() ? "" : fit.unused.front()),
        "is --base the machine that they are from?"};
  }
  return fit;
}

}  // namespace plansearch
