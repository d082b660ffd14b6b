// SPDX-License-Identifier: Apache-2.0
// Computes: the share of multiprocessors that messages keep from products, and the share of a path
//           that two of products, messages and copies have in common.
// Source: ratios of times together and alone; docs/hardware_profiles.md, what runs at once.
// Assumes: what is beside runs as long as what is timed; messages are not slowed by products.
// Units: shares.
// Checked by: tests/unit/measure/fit/overlap_fit_test.cpp
#include "measure/fit/kernel_fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "cost/kernels/compute_cost.hpp"
#include "evidence/evidence.hpp"

namespace plansearch {
namespace {

struct ActivityRow {
  std::string_view word;
  Activity activity;
};
constexpr std::array kActivities{
    ActivityRow{"gemm", Activity::Compute}, ActivityRow{"all_reduce", Activity::Local},
    ActivityRow{"to_device", Activity::FromHost}, ActivityRow{"from_device", Activity::ToHost}};
constexpr double kMostKept = 0.9;  // of the multiprocessors, as profiles may say

std::optional<Activity> activity_of(const io::Sample& sample, std::string_view cell) {
  for (const ActivityRow& row : kActivities) {
    if (row.word == io::word_in(sample.cells, cell)) return row.activity;
  }
  return std::nullopt;
}

/// ln(time beside / time alone) by what is timed and what is beside.
using Slowdowns = std::map<std::pair<Activity, Activity>, double>;

Slowdowns slowdowns_of(const std::vector<io::Sample>& samples) {
  std::map<Activity, double> alone;
  const auto each = [&](bool beside, const auto& take) {
    for (const io::Sample& sample : samples) {
      const auto timed = activity_of(sample, "timed");
      if (sample.probe != "overlap" || !sample.time_us || !timed) continue;
      if (activity_of(sample, "beside").has_value() == beside) take(sample, *timed);
    }
  };
  each(false, [&](const io::Sample& sample, Activity timed) { alone[timed] = *sample.time_us; });
  Slowdowns found;
  each(true, [&](const io::Sample& sample, Activity timed) {
    const auto time = alone.find(timed);
    if (time == alone.end()) return;
    found[{timed, *activity_of(sample, "beside")}] = std::log(*sample.time_us / time->second);
  });
  return found;
}

double predicted(const ConcurrencyCoefficients& shared, const Slowdowns::key_type& pair) {
  const auto both = static_cast<ActivityMask>(bit(pair.first) | bit(pair.second));
  return -std::log(concurrency_rates(shared).rate(both, pair.first));
}

double median_error(const ConcurrencyCoefficients& shared, const Slowdowns& slowdowns) {
  std::vector<double> errors;
  for (const auto& [pair, log] : slowdowns) {
    errors.push_back(std::abs(log - predicted(shared, pair)));
  }
  return median(std::move(errors));
}

/// The mean of both directions of a pair; nothing: neither was measured.
std::optional<double> path_share(const Slowdowns& slowdowns, const ActivityPair& pair) {
  double sum = 0.0;
  int count = 0;
  for (const auto& key : {std::pair{pair.one, pair.other}, std::pair{pair.other, pair.one}}) {
    const auto found = slowdowns.find(key);
    if (found == slowdowns.end()) continue;
    sum += std::exp(found->second) - 1.0;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return std::clamp(sum / count, 0.0, 1.0);
}

void fit_launch(const std::vector<io::Sample>& samples, KernelFit& fit) {
  constexpr double kMicrosecond = 1e-6;
  for (const io::Sample& sample : samples) {
    const bool graph = io::word_in(sample.cells, "kernel") == "graph";
    if (sample.probe != "launch" || !sample.time_us || !graph) continue;
    fit.cluster.accelerator.kernels.stream.graph_launch = Seconds(*sample.time_us * kMicrosecond);
  }
}

}  // namespace

void fit_overlap(const std::vector<io::Sample>& samples, KernelFit& fit) {
  fit_launch(samples, fit);
  const Slowdowns slowdowns = slowdowns_of(samples);
  if (slowdowns.empty()) return;
  ConcurrencyCoefficients& own = fit.cluster.accelerator.concurrency;
  const ConcurrencyCoefficients before = own;
  KernelGroupFit group;
  group.part = "overlap";
  group.rows = slowdowns.size();
  const auto local = static_cast<std::size_t>(Activity::Local);
  const auto kept = slowdowns.find({Activity::Compute, Activity::Local});
  if (kept != slowdowns.end()) {
    own.multiprocessor_share[local] = std::clamp(1.0 - std::exp(-kept->second), 0.0, kMostKept);
    group.changes.push_back({group.part, "multiprocessors.local", "",
                             before.multiprocessor_share[local], own.multiprocessor_share[local],
                             0.0});
  }
  for (const ActivityPair& pair : kPathPairs) {
    const auto share = path_share(slowdowns, pair);
    if (!share) continue;
    own.path_share.set(pair.one, pair.other, *share);
    group.changes.push_back({group.part,
                             fmt::format("paths.{}.{}", key_of(pair.one), key_of(pair.other)), "",
                             before.path_share.of(pair.one, pair.other), *share, 0.0});
  }
  group.error_before = median_error(before, slowdowns);
  group.error_after = median_error(own, slowdowns);
  fit.groups.push_back(std::move(group));
}

std::string concurrency_section(const KernelFit& fit) {
  for (const KernelGroupFit& group : fit.groups) {
    if (group.part != "overlap") continue;
    std::string kept;
    std::map<std::string, std::vector<std::string>> paths;
    for (const CurveChange& change : group.changes) {
      const std::size_t dot = change.quantity.find('.');
      const std::string rest = change.quantity.substr(dot + 1);
      if (change.quantity.starts_with("multiprocessors")) {
        kept = fmt::format("multiprocessors: {{{}: {:.4g}}}", rest, change.own);
        continue;
      }
      const std::size_t second = rest.find('.');
      paths[rest.substr(0, second)].push_back(
          fmt::format("{}: {:.4g}", rest.substr(second + 1), change.own));
    }
    std::vector<std::string> parts;
    if (!kept.empty()) parts.push_back(kept);
    std::vector<std::string> lines;
    for (const auto& [one, others] : paths) {
      lines.push_back(fmt::format("{}: {{{}}}", one, fmt::join(others, ", ")));
    }
    if (!lines.empty()) parts.push_back(fmt::format("paths: {{{}}}", fmt::join(lines, ", ")));
    return fmt::format("  concurrency: {{{}}}\n", fmt::join(parts, ", "));
  }
  return {};
}

}  // namespace plansearch
