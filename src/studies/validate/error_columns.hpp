// SPDX-License-Identifier: Apache-2.0
// Errors of predictions, in files and in tables.
#pragma once

#include "report/columns.hpp"
#include "studies/validate/statistics.hpp"

namespace plansearch {

/// Rows, mean, median, p90 and bias: numbers are null, and dashes, without rows.
[[nodiscard]] const Columns<ErrorSummary>& error_columns();
/// With the share of measured values inside p10 .. p90.
[[nodiscard]] const Columns<ErrorSummary>& time_error_columns();

/// `value`, or null where there are no rows.
[[nodiscard]] nlohmann::ordered_json if_any(std::size_t rows, double value);
/// "3.4" for 0.034.
[[nodiscard]] std::string percent_cell(double ratio);
/// "+3.4" for 0.034.
[[nodiscard]] std::string bias_cell(double ratio);
/// A value of rows, cut where it is too long for a table.
[[nodiscard]] std::string shortened(const std::string& value);

}  // namespace plansearch
