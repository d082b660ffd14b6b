// SPDX-License-Identifier: Apache-2.0
// Computes: quantiles, robust scatter, the normal distribution function.
// Source: linear-interpolation quantiles (Hyndman and Fan type 7); Phi(x) = erfc(-x / sqrt(2)) / 2.
// Assumes: nothing of how values are distributed, but for `deviation` and `normal_below`.
// Units: those of the values.
// Checked by: tests/unit/base/statistics_test.cpp
#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
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
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

Scatter scatter_of(const std::vector<double>& values) {
  constexpr double kNormal = 1.4826;
  Scatter scatter{median(values)};
  for (const double value : values) scatter.distances.push_back(std::abs(value - scatter.middle));
  scatter.deviation = kNormal * median(scatter.distances);
  return scatter;
}

double normal_below(double x, double deviation) {
  return 0.5 * std::erfc(-x / (deviation * std::numbers::sqrt2));
}

double deviations_with(double probability) {
  double low = -40.0;
  double high = 40.0;
  for (int halvings = 0; halvings < 100; ++halvings) {
    const double middle = 0.5 * (low + high);
    (normal_below(-middle) > probability ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace plansearch
