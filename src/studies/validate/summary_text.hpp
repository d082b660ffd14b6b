// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "studies/validate/run_report.hpp"

namespace plansearch {

/// The summary as aligned tables: step time, memory, ranking, feasibility, rows left out.
[[nodiscard]] std::string summary_text(const RunReport& report, int columns);
/// The value of a group, cut where it is too long for a table.
[[nodiscard]] std::string shortened(const std::string& value);
/// "3.4" for 0.034.
[[nodiscard]] std::string percent_cell(double ratio);
/// Rows, mean, median, p90 and bias in per cent; dashes without rows.
[[nodiscard]] std::vector<std::string> error_cells(const ErrorSummary& errors);

}  // namespace plansearch
