// SPDX-License-Identifier: Apache-2.0
// Quantiles, robust scatter and the normal distribution.
#pragma once

#include <span>
#include <vector>

namespace plansearch {

/// Quantile by linear interpolation between order statistics; `sorted` must not be empty.
[[nodiscard]] double quantile(std::span<const double> sorted, double share);

/// Zero where there are no values.
[[nodiscard]] double mean(std::span<const double> values);
[[nodiscard]] double median(std::vector<double> values);

/// Robust measures of values around their median.
struct Scatter {
  double middle = 0.0;
  std::vector<double> distances{};  ///< between each value and it
  double deviation = 0.0;           ///< standard deviation of normal values: 1.4826 x their median
};
[[nodiscard]] Scatter scatter_of(const std::vector<double>& values);

/// Probability that a normal variable of mean 0 and this standard deviation is below `x`.
[[nodiscard]] double normal_below(double x, double deviation = 1.0);
/// The number of deviations above which a normal variable lies with this probability.
[[nodiscard]] double deviations_with(double probability);

}  // namespace plansearch
