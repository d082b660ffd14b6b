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
#include "studies/fit/curve_fit.hpp"
#include "studies/validate/site_fit.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kFp8Block = "fp8_block";
constexpr double kLeastScatter = 0.05;
/// Tenth and ninetieth percentile of a normal distribution in standard deviations.
constexpr double kTenth = 1.2816;
/// Times so far from what is predicted are another accelerator's, or in other units.
constexpr double kOtherKernels = 2.0;
constexpr double kOtherLinks = 10.0;

using Logs = std::span<const double>;
/// The base with its constants moved.
using Apply = std::function<Cluster(Logs)>;

/// Shares of what the data sheet promises end at all of it.
double share(double base, double log) {
  return std::min(base * std::exp(log), std::max(base, 1.0));
}

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
  curve.nic_efficiency = share(curve.nic_efficiency, bandwidth);
  if (curve.step_nic_efficiency) {
    curve.step_nic_efficiency = share(*curve.step_nic_efficiency, bandwidth);
  }
  curve.send_efficiency = share(curve.send_efficiency, bandwidth);
  for (Seconds* time : {&curve.hop_low_latency, &curve.hop, &curve.ring_step,
                        &curve.ring_step_low_latency, &curve.send, &curve.all_to_all_peer}) {
    *time *= later;
  }
}

double usual_scatter(const std::optional<Residual>& residual, const Cluster& base) {
  if (!residual) return std::max(kLeastScatter, base.unmeasured_sigma);
  return std::max(kLeastScatter, (residual->p90 - residual->p10) / (2.0 * kTenth));
}

CurveFit fitted(const std::string& part, const KernelSample& sample, std::size_t parameters,
                const Apply& apply, double usual, double between, double other) {
  if (!sample.measured().empty()) {
    const double ratio = sample.ratio();
    if (ratio > other || ratio < 1.0 / other) {
      throw FitRefusal{fmt::format("{}: the times are x{:.3g} of those of the base", part, ratio),
                       "are they of another accelerator or network, or in other units than "
                       "microseconds and bytes?"};
    }
  }
  const auto found = fit_curve({parameters, [&](Logs logs) { return sample.predict(apply(logs)); },
                                sample.measured(), usual, between});
  if (const auto* fit = std::get_if<CurveFit>(&found)) return *fit;
  const auto& refused = std::get<CurveFitRefusal>(found);
  std::string text = fmt::format("{}: {}", part, refused.reason);
  for (std::size_t i = 0; i < std::min<std::size_t>(refused.outliers.size(), 3); ++i) {
    text += fmt::format("; {} contradicts the others", sample.place(refused.outliers[i]));
  }
  throw FitRefusal{text, "measure more shapes or sizes, or check those that contradict"};
}

KernelGroupFit group_of(const std::string& part, const KernelSample& sample, const CurveFit& fit) {
  KernelGroupFit group;
  group.part = part;
  group.files = sample.files();
  group.rows = fit.kept.size();
  group.scatter = fit.scatter;
  group.error_before = fit.error_before;
  group.error_after = fit.error_after;
  for (const std::size_t row : fit.outliers) group.outliers.push_back(sample.place(row));
  return group;
}

/// Rows that scatter widely make what follows from them less sure.
void widen(std::optional<Residual>& residual, double scatter, double usual) {
  if (scatter <= kLargeScatter || scatter <= usual) return;
  residual = Residual{-kTenth * scatter, 0.0, kTenth * scatter};
}

std::string format_of(const KernelRow& row) {
  const auto dtype = row.cells.find("dtype");
  if (dtype == row.cells.end()) return {};
  const auto type = parse_data_type(dtype->second);
  return type ? std::string(to_text(*type)) : dtype->second;
}

void fit_format(const std::string& format, const std::vector<KernelTable>& tables,
                const SitePopulation& population, KernelFit& fit) {
  const std::string part = "matmul " + format;
  const Cluster base = fit.cluster;
  KernelSample sample;
  for (const KernelTable& table : tables) {
    if (table.kind != TableKind::Matmul) continue;
    sample.add(
        table, base, [&](const KernelRow& row) { return format_of(row) == format; }, fit.unused);
  }
  if (sample.measured().empty()) return;  // the rows not used say why
  Cluster moved = base;
  MatmulCurve& curve = matmul_curve(moved.accelerator, format);
  const MatmulCurve before = curve;
  const auto apply = [&](Logs logs) {
    Cluster cluster = base;
    MatmulCurve& own = matmul_curve(cluster.accelerator, format);
    own.flop_efficiency = share(own.flop_efficiency, logs[0]);
    own.byte_efficiency = share(own.byte_efficiency, logs[1]);
    own.launch *= std::exp(logs[2]);
    return cluster;
  };
  const double usual = usual_scatter(before.residual, base);
  const CurveFit own = fitted(part, sample, 3, apply, usual, population.between, kOtherKernels);
  Cluster after = apply(own.moved);
  const MatmulCurve& rates = matmul_curve(after.accelerator, format);
  curve.flop_efficiency = rates.flop_efficiency;
  curve.byte_efficiency = rates.byte_efficiency;
  widen(curve.residual, own.scatter, usual);
  KernelGroupFit group = group_of(part, sample, own);
  group.changes = {
      {part, "flop_efficiency", "", before.flop_efficiency, curve.flop_efficiency, own.spread[0]},
      {part, "byte_efficiency", "", before.byte_efficiency, curve.byte_efficiency, own.spread[1]}};
  fit.cluster = std::move(moved);
  fit.groups.push_back(std::move(group));
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

void fit_links(const std::vector<KernelTable>& tables, const SitePopulation& population,
               KernelFit& fit) {
  const Cluster base = fit.cluster;
  KernelSample sample;
  std::map<std::size_t, std::size_t> rows_of;  // by tier
  for (const KernelTable& table : tables) {
    if (table.kind != TableKind::Collective) continue;
    const auto count = [&](const KernelRow& row) {
      if (row.measured && row.predicted) ++rows_of[tier_of(row, base)];
      return true;
    };
    sample.add(table, base, count, fit.unused);
  }
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
  const CurveFit own = fitted("collectives", sample, 2 * tiers.size(), apply, usual,
                              population.between, kOtherLinks);
  fit.cluster = apply(own.moved);
  KernelGroupFit group = group_of("collectives", sample, own);
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const LinkTier& before = base.tiers[tiers[i]];
    LinkTier& after = fit.cluster.tiers[tiers[i]];
    std::visit([&](auto& curve) { widen(curve.residual, own.scatter, usual); }, after.curve);
    group.changes.push_back(bandwidth_change(before, after, own.spread[2 * i]));
    group.changes.push_back(latency_change(before, after, own.spread[2 * i + 1]));
    fit.tiers.push_back(before.name);
  }
  fit.groups.push_back(std::move(group));
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
                      const SitePopulation& population) {
  KernelFit fit;
  fit.cluster = base;
  for (const std::string& format : formats_in(tables)) fit_format(format, tables, population, fit);
  fit_links(tables, population, fit);
  if (!tables.empty() && fit.groups.empty()) {
    throw FitRefusal{
        fmt::format("no measured kernel can be predicted on {}{}{}", base.name,
                    fit.unused.empty() ? "" : ": ", fit.unused.empty() ? "" : fit.unused.front()),
        "is --base the machine that they are from?"};
  }
  return fit;
}

}  // namespace plansearch
