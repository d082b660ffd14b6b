// SPDX-License-Identifier: Apache-2.0
// Robust statistics of measurements and rank correlation.
#pragma once

#include <cstddef>
#include <optional>
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

/// Kendall's tau-b: rank correlation with ties. Undefined when either side is constant, such as
/// a sweep of one plan measured several times.
[[nodiscard]] std::optional<double> kendall_tau(std::span<const double> a,
                                                std::span<const double> b);

}  // namespace plansearch
