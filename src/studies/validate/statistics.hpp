// SPDX-License-Identifier: Apache-2.0
// Error measures of predictions against measurements, and of rankings against rankings.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plansearch {

struct ErrorSummary {
  std::size_t rows = 0;
  double mean = 0.0;  ///< mean absolute relative error
  double median = 0.0;
  double p90 = 0.0;
  double bias = 0.0;       ///< mean signed relative error (positive: too slow)
  std::size_t within = 0;  ///< measured values inside p10 .. p90, where that was predicted
  bool operator==(const ErrorSummary&) const = default;
};

/// Of relative errors predicted / measured - 1. Zeros for an empty set (rows = 0 says so).
[[nodiscard]] ErrorSummary summarise_errors(std::span<const double> relative_errors);

/// Quantile by linear interpolation between order statistics; `sorted` must not be empty.
[[nodiscard]] double quantile(std::span<const double> sorted, double share);

/// Zero of none.
[[nodiscard]] double mean(std::span<const double> values);
[[nodiscard]] double median(std::vector<double> values);

/// Robust measures of values around their median.
struct Scatter {
  double middle = 0.0;
  std::vector<double> distances{};  ///< of each value from it
  double deviation = 0.0;           ///< standard deviation of normal values: 1.4826 x their median
};
[[nodiscard]] Scatter scatter_of(const std::vector<double>& values);

/// Rows that share a value.
struct RowGroup {
  std::string value;
  std::vector<std::size_t> rows;
};
/// In order of first appearance; a row is in the group of each of its values.
[[nodiscard]] std::vector<RowGroup> grouped(
    std::span<const std::size_t> rows,
    const std::function<std::vector<std::string>(std::size_t)>& values_of);

/// Kendall's tau-b: rank correlation with ties. Undefined when either side is constant, such as
/// a sweep of one plan measured several times.
[[nodiscard]] std::optional<double> kendall_tau(std::span<const double> a,
                                                std::span<const double> b);

/// How a sweep's ranking by prediction compares with its ranking by measurement.
struct SweepRanking {
  std::size_t rows = 0;
  double regret = 0.0;  ///< measured time of our choice over the best measured, minus one
  std::optional<double> tau;
  bool top1 = false;  ///< our choice is the measured best
  bool top3 = false;  ///< the measured best is among our first three
};
[[nodiscard]] SweepRanking rank_sweep(std::span<const double> measured,
                                      std::span<const double> predicted);

}  // namespace plansearch
