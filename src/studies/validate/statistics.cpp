// SPDX-License-Identifier: Apache-2.0
// Computes: quantiles, robust scatter, Kendall's tau-b.
// Source: Kendall 1945 (tau-b with ties); linear-interpolation quantiles (Hyndman and Fan type 7).
// Assumes: nothing of how values are distributed.
// Units: ratios.
// Checked by: tests/unit/studies/statistics_test.cpp
#include "studies/validate/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plansearch {

double quantile(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
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

}  // namespace plansearch
