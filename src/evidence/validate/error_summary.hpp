// SPDX-License-Identifier: Apache-2.0
// Rank correlation, and errors of predictions by group of rows.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "report/columns.hpp"

namespace plansearch {

/// Kendall's tau-b: rank correlation with ties. Undefined when either side is constant, such as
/// a sweep of one plan measured several times.
[[nodiscard]] std::optional<double> kendall_tau(std::span<const double> a,
                                                std::span<const double> b);

struct ErrorSummary {
  std::size_t rows = 0;
  double mean = 0.0;  ///< mean absolute relative error
  double median = 0.0;
  double p90 = 0.0;
  double bias = 0.0;       ///< mean signed relative error (positive: too slow)
  std::size_t within = 0;  ///< measured values inside p10 .. p90, where that was predicted
  bool operator==(const ErrorSummary&) const = default;
};

/// Summary of relative errors predicted / measured - 1. Zeros for an empty set (rows = 0 says so).
[[nodiscard]] ErrorSummary summarise_errors(std::span<const double> relative_errors);

/// Rows, mean, median, p90 and bias: numbers are null, and dashes, without rows.
[[nodiscard]] const Columns<ErrorSummary>& error_columns();
/// The same with the share of measured values inside p10 .. p90.
[[nodiscard]] const Columns<ErrorSummary>& time_error_columns();

/// Rows that share a value.
struct RowGroup {
  std::string value;
  std::vector<std::size_t> rows;
};
/// In order of first appearance; a row is in the group of each of its values.
[[nodiscard]] std::vector<RowGroup> grouped(
    std::span<const std::size_t> rows,
    const std::function<std::vector<std::string>(std::size_t)>& values_of);

/// Every cell of a row as written, by column name.
using CellsByColumn = std::map<std::string, std::string, std::less<>>;
/// The cells of columns joined by '+', with commas between them; nothing where one is absent.
[[nodiscard]] std::optional<std::string> joined_cells(const CellsByColumn& cells,
                                                      const std::string& columns);
/// A group's value, cut where it is too long for a table.
[[nodiscard]] std::string shortened(const std::string& value);

}  // namespace plansearch
