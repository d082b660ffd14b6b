// SPDX-License-Identifier: Apache-2.0
// How well predictions of measured runs hold, overall and by group. Rankings, sites and memory
// risks of the same rows: tools/validation_summary.py.
#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/validate/error_summary.hpp"
#include "evidence/validate/run_prediction.hpp"
#include "io/tables/csv.hpp"

namespace plansearch {

struct FeasibilitySummary {
  std::size_t measured = 0;  ///< expressible rows that ran
  std::size_t measured_illegal = 0;
  std::size_t measured_too_large = 0;
  std::size_t failed = 0;  ///< expressible rows that failed
  std::size_t failed_illegal = 0;
  std::size_t failed_too_large = 0;
  std::size_t failed_called_feasible = 0;
};

struct GroupSummary {
  std::string by;     ///< "all", a column (several joined by '+'), "regime", "site" or "mfu"
  std::string value;  ///< shared by its rows; empty for all
  std::size_t rows = 0;
  std::size_t inexpressible = 0;
  ErrorSummary step_time;
  std::array<ErrorSummary, kMemoryKindCount> memory;
  FeasibilitySummary feasibility;
};

struct RunSelection {
  /// Columns (several joined by '+'), "regime" (several a row, or "none of these"), "site" (none
  /// where it is not known) or "mfu" (the measured utilisation, below or above 2 %).
  std::vector<std::string> by{"source", "framework", "hw", "known", "site", "mfu", "regime"};
  double min_mfu = 0.0;              ///< measured steps below it are left out of step-time errors
  std::set<std::string> excluded{};  ///< ids left out altogether
};

/// The overall group first, then every group of every column, in order of first appearance.
[[nodiscard]] std::vector<GroupSummary> summarise_runs(const std::vector<PredictedRun>& runs,
                                                       const RunSelection& selection);

/// True of "regime", "mfu" and "site", which no column holds (or need not).
[[nodiscard]] bool is_derived_group(std::string_view by);
/// InputError when the table lacks one of the columns joined by '+'.
void require_columns(const io::CsvTable& table, const std::string& columns);

}  // namespace plansearch
