// SPDX-License-Identifier: Apache-2.0
// How well predictions of measured runs hold, overall and by group.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "studies/validate/run_prediction.hpp"
#include "studies/validate/run_ranking.hpp"
#include "studies/validate/run_record.hpp"
#include "studies/validate/site_errors.hpp"
#include "studies/validate/statistics.hpp"

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

/// Stated risks against what happened, in the bins of what a risk is called.
struct RiskBin {
  double low = 0.0;   ///< risks above it (the first bin: from it) ...
  double high = 1.0;  ///< ... up to this one
  std::size_t rows = 0;
  std::size_t failed = 0;
  double stated = 0.0;  ///< mean risk of the rows
};
inline constexpr std::array<double, 5> kRiskBins{0.0, 0.1, 0.5, 0.9, 1.0};

/// Legal rows with a stated risk, of tables in which some runs failed.
struct RiskSummary {
  std::size_t rows = 0;
  std::size_t failed = 0;
  double brier = 0.0;       ///< mean of (stated risk - failed)^2
  double brier_base = 0.0;  ///< of whoever always states the share that failed
  double brier_hard = 0.0;  ///< of whoever says 1 where the prediction exceeds the limit, else 0
  std::array<RiskBin, kRiskBins.size() - 1> bins{};
};

struct GroupSummary {
  std::string by;     ///< "all", a column (several joined by '+'), "regime" or "mfu"
  std::string value;  ///< what its rows share; empty for all
  std::size_t rows = 0;
  std::size_t inexpressible = 0;
  ErrorSummary step_time;
  std::size_t within_interval = 0;  ///< measured steps inside p10 .. p90
  std::array<SiteErrors, kSiteViewCount> at_sites;
  std::array<ErrorSummary, kMemoryKindCount> memory;
  RankingSummary ranking;
  FeasibilitySummary feasibility;
  RiskSummary risk;
};

struct RunSelection {
  /// Columns (several joined by '+'), "regime", "site" or "mfu"; see run_groups.hpp.
  std::vector<std::string> by{"source", "framework", "hw", "known", "site", "mfu", "regime"};
  double min_mfu = 0.0;              ///< measured steps below it are left out of step-time errors
  std::set<std::string> excluded{};  ///< ids left out altogether
};

/// The overall group first, then every group of every column, in order of first appearance.
[[nodiscard]] std::vector<GroupSummary> summarise_runs(
    const std::vector<RunRecord>& runs, const std::vector<RunPrediction>& predictions,
    const RunSelection& selection);

/// Ids of a table with a column `id`.
[[nodiscard]] std::set<std::string> read_ids(const io::CsvTable& table);

}  // namespace plansearch
