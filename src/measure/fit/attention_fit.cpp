// SPDX-License-Identifier: Apache-2.0
// Computes: share of the peak, rate of exponentials and start of a block of fused attention.
// Source: least squares of measure/fit/curve_fit on cost/kernels/attention_time.
// Assumes: backward is fitted by itself; bytes are moved as the base moves them; how long a call
//          takes to start belongs to the benchmark where there is a base.
// Units: logarithms of ratios; constants in their own.
// Checked by: tests/unit/measure/fit/attention_fit_test.cpp
#include "measure/fit/kernel_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace plansearch {
namespace {

/// Share of the peak, exponentials, start of a block, start of a call; and the longest block, what
/// a token costs, shares of memory bandwidth.
constexpr std::size_t kAttentionRates = 4;
constexpr std::size_t kWholeAttention = 8;
constexpr std::string_view kOwnName = "measured";
constexpr std::string_view kBackward = "backward";
using Logs = std::span<const double>;

/// An implementation and a direction of which there are rows.
struct AttentionPart {
  std::string kernel;  ///< empty: the rows do not say
  bool backward = false;
  auto operator<=>(const AttentionPart&) const = default;
};

AttentionPart part_of(const KernelRow& row) {
  return {io::word_in(row.cells, "kernel"), io::word_in(row.cells, "direction") == kBackward};
}

std::set<AttentionPart> parts_of(const std::vector<KernelTable>& tables) {
  std::set<AttentionPart> parts;
  for (const KernelTable& table : tables) {
    if (table.kind != TableKind::Attention) continue;
    for (const io::CsvRow& cells : table.table.rows()) {
      KernelRow row;
      row.cells = table.table.cells(cells);
      parts.insert(part_of(row));
    }
  }
  return parts;
}

/// Before anything is known of it: products and exponentials of a head of 128 take as long.
AttentionCurve usual_curve(const Accelerator& chip) {
  double peak = 0.0;
  for (const auto& rate : chip.peak) peak = std::max(peak, rate ? rate->value() : 0.0);
  AttentionCurve curve;
  curve.launch = Seconds(5e-6);
  curve.flop_efficiency = 0.6;
  curve.exponentials_per_us = 1e-6 * peak / chip.multiprocessors / (4.0 * 128.0);
  curve.block = Seconds(2e-6);
  curve.longest = 0.5;
  curve.query_byte_efficiency = 0.8;
  curve.key_byte_efficiency = 0.8;
  return curve;
}

/// The kernel whose constants rows of that name move: made where the accelerator has none.
AttentionKernel& kernel_of(Accelerator& chip, const std::string& name) {
  auto& kernels = chip.kernels.attention;
  const auto named = [&](std::string_view wanted) {
    return std::ranges::find(kernels, wanted, &AttentionKernel::name);
  };
  auto found = named(name);
  if (name.empty()) {
    found = named("serving");
    if (found == kernels.end()) {
      found = std::ranges::find_if(
          kernels, [](const AttentionKernel& kernel) { return kernel.backward.has_value(); });
    }
    if (found == kernels.end()) found = kernels.begin();
  }
  if (found != kernels.end()) return *found;
  AttentionKernel made{name.empty() ? std::string(kOwnName) : name, usual_curve(chip), {}};
  const auto trained = std::ranges::find_if(
      kernels, [](const AttentionKernel& kernel) { return kernel.backward.has_value(); });
  if (trained != kernels.end()) {
    made.forward = trained->forward;
    made.backward = trained->backward;
  }
  kernels.push_back(std::move(made));
  return kernels.back();
}

AttentionCurve& curve_of(Accelerator& chip, const AttentionPart& part) {
  AttentionKernel& kernel = kernel_of(chip, part.kernel);
  if (!part.backward) return kernel.forward;
  if (!kernel.backward) {
    kernel.backward = kernel.forward;
    kernel.backward->launch = kernel.forward.launch * 2.0;
  }
  return *kernel.backward;
}

void move(AttentionCurve& curve, Logs logs) {
  curve.flop_efficiency = moved_share(curve.flop_efficiency, logs[0]);
  curve.exponentials_per_us *= std::exp(logs[1]);
  curve.block *= std::exp(logs[2]);
  curve.launch *= std::exp(logs[3]);
  if (logs.size() == kAttentionRates) return;
  curve.longest *= std::exp(logs[4]);
  curve.token *= std::exp(logs[5]);
  curve.query_byte_efficiency = moved_share(curve.query_byte_efficiency, logs[6]);
  curve.key_byte_efficiency = moved_share(curve.key_byte_efficiency, logs[7]);
}

std::vector<CurveChange> changes(const std::string& part, const AttentionCurve& before,
                                 const AttentionCurve& after, const std::vector<double>& spread) {
  std::vector<CurveChange> all{
      {part, "flop_efficiency", "", before.flop_efficiency, after.flop_efficiency, spread[0]},
      {part, "exponentials_per_us", "", before.exponentials_per_us, after.exponentials_per_us,
       spread[1]},
      {part, "block", "s", before.block.value(), after.block.value(), spread[2]}};
  if (spread.size() == kAttentionRates) return all;
  all.push_back({part, "launch", "s", before.launch.value(), after.launch.value(), spread[3]});
  all.push_back({part, "longest", "", before.longest, after.longest, spread[4]});
  if (before.token.value() > 0.0) {
    all.push_back({part, "token", "s", before.token.value(), after.token.value(), spread[5]});
  }
  all.push_back({part, "query_byte_efficiency", "", before.query_byte_efficiency,
                 after.query_byte_efficiency, spread[6]});
  all.push_back({part, "key_byte_efficiency", "", before.key_byte_efficiency,
                 after.key_byte_efficiency, spread[7]});
  return all;
}

void fit_part(const AttentionPart& part, const std::vector<KernelTable>& tables,
              const SitePopulation& population, Carried carried, KernelFit& fit) {
  Cluster base = fit.cluster;
  const bool whole = carried == Carried::WholeCurve;
  // A parameter that moves by factors must not start near zero.
  constexpr Seconds kLeastBlock(0.5e-6);
  AttentionCurve& start = curve_of(base.accelerator, part);
  if (whole) start.block = std::max(start.block, kLeastBlock);
  const AttentionCurve before = start;
  const std::string kernel = kernel_of(base.accelerator, part.kernel).name;
  const auto belongs = [&](const KernelRow& row) { return part_of(row) == part; };
  const KernelSample sample(tables, TableKind::Attention, base, belongs, fit.unused);
  if (sample.measured().empty()) return;  // the rows not used say why
  const auto apply = [&](Logs logs) {
    Cluster cluster = base;
    move(curve_of(cluster.accelerator, part), logs);
    return cluster;
  };
  const std::string name =
      fmt::format("attention {} {}", kernel, part.backward ? kBackward : "forward");
  const double usual = usual_scatter(before.residual, base);
  GroupFit own = fit_group({name, sample, whole ? kWholeAttention : kAttentionRates, apply, usual,
                            population.between, kOtherLinks, carried});
  Cluster moved = apply(own.curve.moved);
  AttentionCurve& after = curve_of(moved.accelerator, part);
  if (!whole) after.launch = before.launch;
  if (own.group.held_out && whole) after.residual = own.group.held_out->residual;
  if (!whole) widen(after.residual, own.curve.scatter, usual);
  own.group.changes = changes(name, before, after, own.curve.spread);
  fit.cluster = std::move(moved);
  fit.groups.push_back(std::move(own.group));
  if (std::ranges::find(fit.attentions, kernel) == fit.attentions.end()) {
    fit.attentions.push_back(kernel);
  }
}

}  // namespace

void fit_attention(const std::vector<KernelTable>& tables, const SitePopulation& population,
                   Carried carried, KernelFit& fit) {
  for (const AttentionPart& part : parts_of(tables)) {
    try {
      fit_part(part, tables, population, carried, fit);
    } catch (const FitRefusal& refusal) {  // a machine is known without it
      fit.unused.push_back(refusal.reason);
    }
  }
}

}  // namespace plansearch
