// SPDX-License-Identifier: Apache-2.0
// The answer of `plansearch validate` on measured runs: table, JSON and CSV.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "evidence/validate/run_summary.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

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

/// Tables of up to this many rows are shown row by row, without groups that nobody named.
inline constexpr std::size_t kFewRows = 40;

/// Json and JsonLines (one line per row) hold every row; Table holds the summary and the rows that
/// cannot be expressed; Csv holds the rows.
[[nodiscard]] std::string render_runs(const RunReport& report, Format format, int columns = 0);

/// Rows as objects, and as a table of few rows with the parts of the worst one (run_rows.cpp).
[[nodiscard]] nlohmann::ordered_json rows_json(const RunReport& report);
[[nodiscard]] std::string rows_table(const RunReport& report, int columns);

}  // namespace plansearch
