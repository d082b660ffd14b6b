// SPDX-License-Identifier: Apache-2.0
// Computes: how far the times of each class are from a profile's.
// Source: medians of ln(measured / predicted), against the residuals that the profile states.
// Assumes: a class drifts as a whole; single points scatter as they did when it was fitted.
// Units: logarithms of ratios.
// Checked by: tests/unit/measure/calibrate/drift_test.cpp
#include "measure/calibrate/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "evidence/evidence.hpp"
#include "measure/fit/fit_tables.hpp"

namespace plansearch::calibrate {
namespace {

constexpr double kLeastBand = 0.1;

std::string part_of(TableKind kind, const KernelRow& row) {
  if (kind == TableKind::Matmul) return "matmul " + io::word_in(row.cells, "dtype");
  if (kind == TableKind::Stream) return "passes over memory";
  if (kind == TableKind::Attention) return "attention " + io::word_in(row.cells, "direction");
  return fmt::format("{} over {} ranks", io::word_in(row.cells, "collective"),
                     io::word_in(row.cells, "gpus"));
}

/// Residual of a class in the profile; nothing: not measured.
std::optional<Residual> residual_of(TableKind kind, const KernelRow& row, const Cluster& profile) {
  if (kind == TableKind::Matmul) {
    const auto type = parse_data_type(io::word_in(row.cells, "dtype"));
    if (!type) return std::nullopt;
    const auto& curve = profile.accelerator.kernels.matmul.at(static_cast<std::size_t>(*type));
    return curve ? curve->residual : std::nullopt;
  }
  if (kind != TableKind::Collective) return std::nullopt;
  return std::visit([](const auto& curve) { return curve.residual; }, profile.tiers.front().curve);
}

struct Class {
  std::vector<double> logs;
  std::optional<Residual> residual;
};

}  // namespace

bool Drift::drifted() const {
  return std::abs(std::log(ratio / expected)) > band;
}

std::vector<SlowRank> slow_ranks(const io::SampledMachine& machine,
                                 const std::vector<io::Sample>& samples) {
  std::map<std::string, std::map<std::size_t, std::vector<double>>> ratios;
  std::map<std::string, std::size_t> points;
  for (const io::Sample& sample : samples) {
    const auto rank = sample.state.values.find("slowest_rank");
    const auto ratio = sample.state.values.find("slowest_over_middle");
    if (!sample.time_us || rank == sample.state.values.end() || ratio == sample.state.values.end())
      continue;
    const std::string part = sample.probe == "collective" ? "messages" : "kernels";
    ++points[part];
    ratios[part][static_cast<std::size_t>(rank->second)].push_back(ratio->second);
  }
  std::vector<SlowRank> found;
  for (const auto& [part, by_rank] : ratios) {
    for (const auto& [rank, all] : by_rank) {
      const double ratio = median(all);
      if (2 * all.size() <= points[part] || std::log(ratio) <= kLeastBand) continue;
      const auto where = machine.facts.find(fmt::format("rank {}", rank));
      found.push_back({part, rank, where == machine.facts.end() ? std::string() : where->second,
                       ratio, all.size()});
    }
  }
  return found;
}

std::vector<Drift> drifts(const io::SampledMachine& machine, const std::vector<io::Sample>& samples,
                          const Cluster& profile) {
  const KernelProfiles only{[&](std::string_view) { return profile.accelerator; },
                            [&](std::string_view) { return profile; },
                            [&] { return std::vector<Cluster>{profile}; }};
  io::SampleFile file{.file = "samples", .machine = machine, .samples = samples};
  std::map<std::string, Class> classes;
  for (const KernelTable& table : tables_of(file, profile.name)) {
    for (const KernelRow& row : predict_kernels(table.table, table.kind, only)) {
      if (!row.measured || !row.predicted) continue;
      Class& own = classes[part_of(table.kind, row)];
      own.logs.push_back(std::log(*row.measured / *row.predicted));
      own.residual = residual_of(table.kind, row, profile);
    }
  }
  std::vector<Drift> found;
  for (const auto& [part, own] : classes) {
    Drift drift{part, own.logs.size(), std::exp(median(own.logs))};
    drift.band = std::max(kLeastBand, 2.0 * profile.unmeasured_sigma);
    if (own.residual) {
      drift.expected = std::exp(own.residual->p50);
      drift.band = std::max(kLeastBand, 0.5 * (own.residual->p90 - own.residual->p10));
    }
    found.push_back(drift);
  }
  return found;
}

}  // namespace plansearch::calibrate
