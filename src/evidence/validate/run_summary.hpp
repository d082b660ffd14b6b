// SPDX-License-Identifier: Apache-2.0
// How well predictions of measured runs hold, overall and by group, and the answer of `plansearch validate`: table,
// JSON and CSV. Rankings, sites and memory risks of the same rows: tools/validation_summary.py.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/validate/error_summary.hpp"
#include "evidence/validate/run_prediction.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/report.hpp"

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

/// The summary of one set of rows: all of them, or those that are not under suspicion.
struct SummarySet {
  std::string name;  ///< "all" or "without_suspects"
  std::vector<GroupSummary> groups;
};

struct RunReport {
  const std::vector<PredictedRun>& runs;
  std::vector<std::string> unread{};  ///< columns that mean nothing here
  std::set<std::string> suspects{};
  double min_mfu = 0.0;
  std::vector<SummarySet> sets{};
};

/// Tables of up to this many rows are shown row by row, without groups that were not named.
inline constexpr std::size_t kFewRows = 40;

/// Json and JsonLines (one line per row) hold every row; Table holds the summary and the rows that
/// cannot be expressed; Csv holds the rows.
[[nodiscard]] std::string render_runs(const RunReport& report, Format format, int columns = 0);

/// Rows as objects, and as a table of few rows with the parts of the worst one (run_rows.cpp).
[[nodiscard]] nlohmann::ordered_json rows_json(const RunReport& report);
[[nodiscard]] std::string rows_table(const RunReport& report, int columns);

}  // namespace plansearch
