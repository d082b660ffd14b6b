// SPDX-License-Identifier: Apache-2.0
// Computes: rates of matrix products (per format: share of peak, share of memory bandwidth) that
//           bring kernel prices to measured times.
// Source: measure/fit/curve_fit; prices of cost/, as evidence/validate/kernel_validation asks for them.
// Assumes: constants of one kind move together; how long a call takes to start belongs to the
//          benchmark and is fitted beside the rates, but not carried over; no share of a datasheet
//          rate above one.
// Units: logarithms of ratios; constants in their own.
// Checked by: tests/unit/measure/fit/kernel_fit_test.cpp
//
// Computes: the share of memory bandwidth that passes over memory reach, and their launch.
// Source: least squares of measure/fit/curve_fit on cost/kernels/compute_cost (stream_time).
// Assumes: copies, element-wise passes, norms and optimizer updates run at one rate.
// Units: logarithms of ratios; seconds.
// Checked by: tests/unit/measure/fit/stream_fit_test.cpp
#include "measure/fit/kernel_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "evidence/evidence.hpp"

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

std::string format_of(const std::string& dtype) {
  const auto type = parse_data_type(dtype);
  return type ? std::string(to_text(*type)) : dtype;
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
  const auto belongs = [&](const KernelRow& row) {
    return format_of(io::word_in(row.cells, "dtype")) == format;
  };
  const KernelSample sample(tables, TableKind::Matmul, base, belongs, fit.unused);
  const std::size_t rows = sample.measured().size();
  if (rows == 0) return;  // the rows not used say why
  if (rows < kFewestRuns) {
    fit.unused.push_back(fmt::format("{}: {}", part, too_few_rows(rows)));
    return;
  }
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

std::set<std::string> formats_in(const std::vector<KernelTable>& tables) {
  std::set<std::string> formats;
  for (const KernelTable& table : tables) {
    if (table.kind != TableKind::Matmul) continue;
    for (const io::CsvRow& row : table.table.rows()) {
      formats.insert(format_of(table.table.text(row, "dtype")));
    }
  }
  return formats;
}

void require_same_machine(const GroupProblem& problem) {
  if (problem.sample.measured().empty()) return;
  const double ratio = problem.sample.ratio();
  if (ratio <= problem.other && ratio >= 1.0 / problem.other) return;
  throw FitRefusal{
      fmt::format("{}: the times are x{:.3g} of those of the base", problem.part, ratio),
      "are they of another accelerator or network, or in other units than microseconds and bytes?"};
}

/// A guess may be off by a factor of e^2 as easily as a row by its noise.
constexpr double kGuess = 1e-3;
/// Spread of a machine of which nothing else is known: a factor of two is news.
constexpr double kAnyMachine = 0.7;

/// A rate and the start of a call cannot be separated by one size.
void require_sizes(const GroupProblem& problem) {
  if (problem.sample.measured().size() < kFewestRuns || problem.sample.sizes() > 1) return;
  throw FitRefusal{
      fmt::format("{}: all rows are of one size", problem.part),
      "measure small and large ones: the start of a call and its rate are to be found"};
}

void require_agreement(const GroupProblem& problem, const CurveFit& fit) {
  constexpr double kMost = 1.0 / 3.0;
  const double rows = static_cast<double>(problem.sample.measured().size());
  if (static_cast<double>(fit.outliers.size()) <= kMost * rows) return;
  throw FitRefusal{
      fmt::format("{}: {} of {} rows contradict the others, {} among them", problem.part,
                  fit.outliers.size(), rows, problem.sample.place(fit.outliers.front())),
      "are all of them of one machine, in microseconds and bytes?"};
}

KernelGroupFit group_of(const GroupProblem& problem, const CurveFit& fit) {
  KernelGroupFit group;
  group.part = problem.part;
  group.files = problem.sample.files();
  group.rows = fit.kept.size();
  group.scatter = fit.scatter;
  group.error_before = fit.error_before;
  group.error_after = fit.error_after;
  for (const std::size_t row : fit.outliers) group.outliers.push_back(problem.sample.place(row));
  const std::vector<double> predicted = problem.sample.predict(problem.apply(fit.moved));
  for (const std::size_t row : fit.kept) {
    group.seen.push_back({problem.sample.measured()[row], predicted[row]});
  }
  return group;
}

}  // namespace

std::string group_summary(const KernelGroupFit& group) {
  std::string text = fmt::format(
      "{}: {} of {} rows, off by {:.1f} % (median) before, {:.1f} % now; single rows scatter by "
      "{:.1f} %",
      group.part, group.rows, group.rows + group.outliers.size(), 100.0 * group.error_before,
      100.0 * group.error_after, 100.0 * group.scatter);
  if (!group.held_out) return text;
  return text + fmt::format("; rows left out are off by {:.1f} %", 100.0 * group.held_out->error);
}

KernelFit fit_kernels(const std::vector<KernelTable>& tables, const Cluster& base,
                      const SitePopulation& population, Carried carried) {
  KernelFit fit;
  fit.cluster = base;
  for (const std::string& format : formats_in(tables)) {
    fit_format(format, tables, population, carried, fit);
  }
  fit_attention(tables, population, carried, fit);
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

void fit_streams(const std::vector<KernelTable>& tables, const SitePopulation& population,
                 Carried carried, KernelFit& fit) {
  const Cluster base = fit.cluster;
  const auto every = [](const KernelRow&) { return true; };
  const KernelSample sample(tables, TableKind::Stream, base, every, fit.unused);
  if (sample.measured().empty()) return;
  const auto apply = [&](std::span<const double> logs) {
    Cluster cluster = base;
    StreamCurve& stream = cluster.accelerator.kernels.stream;
    stream.efficiency = moved_share(stream.efficiency, logs[0]);
    stream.launch *= std::exp(logs[1]);
    return cluster;
  };
  GroupFit found = fit_group({"stream", sample, 2, apply, usual_scatter(std::nullopt, base),
                              population.between, kOtherLinks, carried});
  fit.cluster = apply(found.curve.moved);
  const StreamCurve& before = base.accelerator.kernels.stream;
  const StreamCurve& after = fit.cluster.accelerator.kernels.stream;
  const std::vector<double>& spread = found.curve.spread;
  found.group.changes = {
      {"stream", "efficiency", "", before.efficiency, after.efficiency, spread[0]},
      {"stream", "launch", "s", before.launch.value(), after.launch.value(), spread[1]}};
  fit.groups.push_back(std::move(found.group));
}

GroupFit fit_group(const GroupProblem& problem) {
  require_same_machine(problem);
  require_sizes(problem);
  const CurveProblem curve{
      problem.parameters,
      [&](std::span<const double> logs) { return problem.sample.predict(problem.apply(logs)); },
      problem.sample.measured(),
      problem.usual,
      problem.carried == Carried::WholeCurve ? kAnyMachine : problem.between,
      problem.carried == Carried::WholeCurve ? kGuess : kPriorRuns};
  const auto found = fit_curve(curve);
  if (const auto* fit = std::get_if<CurveFit>(&found)) {
    require_agreement(problem, *fit);
    GroupFit result{*fit, group_of(problem, *fit)};
    result.group.held_out = held_out(curve, fit->kept);
    return result;
  }
  const auto& refused = std::get<CurveFitRefusal>(found);
  std::string text = fmt::format("{}: {}", problem.part, refused.reason);
  for (std::size_t i = 0; i < std::min<std::size_t>(refused.outliers.size(), 3); ++i) {
    text += fmt::format("; {} contradicts the others", problem.sample.place(refused.outliers[i]));
  }
  throw FitRefusal{text, "measure more shapes or sizes, or check those that contradict"};
}

double moved_share(double base, double log) {
  return std::min(base * std::exp(log), std::max(base, 1.0));
}

double usual_scatter(const std::optional<Residual>& residual, const Cluster& base) {
  if (!residual) return std::max(kLeastScatter, base.unmeasured_sigma);
  return std::max(kLeastScatter, (residual->p90 - residual->p10) / (2.0 * kTenth));
}

void widen(std::optional<Residual>& residual, double scatter, double usual) {
  if (scatter <= kLargeScatter || scatter <= usual) return;
  residual = Residual{-kTenth * scatter, 0.0, kTenth * scatter};
}

}  // namespace plansearch
