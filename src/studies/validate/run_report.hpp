// SPDX-License-Identifier: Apache-2.0
// The answer of `plansearch validate` on measured runs: table, JSON and CSV.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plansearch/report.hpp"
#include "studies/validate/fit_draws.hpp"
#include "studies/validate/run_summary.hpp"

namespace plansearch {

/// The summary of one set of rows: all of them, or those that are not under suspicion.
struct SummarySet {
  std::string name;  ///< "all" or "without_suspects"
  std::vector<GroupSummary> groups;
};

struct RunReport {
  const std::vector<RunRecord>& runs;
  const std::vector<RunPrediction>& predictions;
  std::vector<std::string> unread{};  ///< columns that mean nothing here
  std::set<std::string> suspects{};
  double min_mfu = 0.0;
  std::vector<SummarySet> sets{};
  FitStudy fits{};
};

/// Json and JsonLines (one line per row) hold every row; Table holds the summary and the rows that
/// cannot be expressed; Csv holds the rows.
[[nodiscard]] std::string render_runs(const RunReport& report, Format format, int columns = 0);

}  // namespace plansearch
