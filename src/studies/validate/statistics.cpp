// SPDX-License-Identifier: Apache-2.0
// Computes: relative-error summaries, Kendall's tau-b, regret.
// Source: Kendall 1945 (tau-b with ties); linear-interpolation quantiles (Hyndman and Fan type 7).
// Assumes: measured values are positive.
// Units: ratios.
// Checked by: tests/unit/studies/statistics_test.cpp
#include "studies/validate/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace plansearch {

double quantile(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

ErrorSummary summarise_errors(std::span<const double> relative_errors) {
  ErrorSummary summary;
  summary.rows = relative_errors.size();
  if (relative_errors.empty()) return summary;
  std::vector<double> absolute;
  for (const double error : relative_errors) absolute.push_back(std::abs(error));
  std::sort(absolute.begin(), absolute.end());
  summary.mean = mean(absolute);
  summary.median = quantile(absolute, 0.5);
  summary.p90 = quantile(absolute, 0.9);
  summary.bias = mean(relative_errors);
  return summary;
}

double mean(std::span<const double> values) {
  if (values.empty()) return 0.0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

Scatter scatter_of(const std::vector<double>& values) {
  constexpr double kNormal = 1.4826;
  Scatter scatter{median(values)};
  for (const double value : values) scatter.distances.push_back(std::abs(value - scatter.middle));
  scatter.deviation = kNormal * median(scatter.distances);
  return scatter;
}

std::vector<RowGroup> grouped(
    std::span<const std::size_t> rows,
    const std::function<std::vector<std::string>(std::size_t)>& values_of) {
  std::vector<RowGroup> groups;
  std::map<std::string, std::size_t> place;
  for (const std::size_t row : rows) {
    for (const std::string& value : values_of(row)) {
      const auto [found, added] = place.emplace(value, groups.size());
      if (added) groups.push_back({value, {}});
      groups[found->second].rows.push_back(row);
    }
  }
  return groups;
}

std::optional<double> kendall_tau(std::span<const double> a, std::span<const double> b) {
  double concordance = 0.0;
  double untied_a = 0.0;
  double untied_b = 0.0;
  const auto sign = [](double x) { return static_cast<double>((x > 0.0) - (x < 0.0)); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = i + 1; j < a.size(); ++j) {
      const double da = sign(a[i] - a[j]);
      const double db = sign(b[i] - b[j]);
      concordance += da * db;
      untied_a += std::abs(da);
      untied_b += std::abs(db);
    }
  }
  if (untied_a == 0.0 || untied_b == 0.0) return std::nullopt;
  return concordance / std::sqrt(untied_a * untied_b);
}

SweepRanking rank_sweep(std::span<const double> measured, std::span<const double> predicted) {
  SweepRanking ranking;
  ranking.rows = measured.size();
  std::vector<std::size_t> order(measured.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return predicted[i] < predicted[j]; });
  const double best = *std::min_element(measured.begin(), measured.end());
  ranking.regret = measured[order.front()] / best - 1.0;
  ranking.top1 = measured[order.front()] == best;
  const std::size_t first = std::min<std::size_t>(3, order.size());
  ranking.top3 = std::any_of(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first),
                             [&](std::size_t i) { return measured[i] == best; });
  ranking.tau = kendall_tau(measured, predicted);
  return ranking;
}

}  // namespace plansearch
