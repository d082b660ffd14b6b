// SPDX-License-Identifier: Apache-2.0
// How well predictions of measured runs hold, overall and by group.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "studies/validate/run_groups.hpp"
#include "studies/validate/run_prediction.hpp"
#include "studies/validate/statistics.hpp"

namespace plansearch {

/// Two rows make a regret, three a tau.
struct RankingSummary {
  std::size_t sweeps = 0;  ///< with at least two rows
  double median_regret = 0.0;
  double mean_regret = 0.0;
  double worst_regret = 0.0;
  std::size_t tau_sweeps = 0;  ///< with at least three rows, not all predicted alike
  double mean_tau = 0.0;
  double median_tau = 0.0;
  std::size_t top1 = 0;  ///< our choice is the measured best
  std::size_t top3 = 0;  ///< the measured best is among our first three
};
[[nodiscard]] RankingSummary summarise_sweeps(std::span<const Sweep> sweeps);

/// What is known of the site of a row: its own runs, nothing, or nothing and its laboratory in no
/// fit of sites.
enum class SiteView : std::uint8_t { Own, Typical, LeftOut };
inline constexpr std::array<SiteView, 3> kSiteViews{SiteView::Own, SiteView::Typical,
                                                    SiteView::LeftOut};
/// "own_site", "typical", "left_out": in files.
[[nodiscard]] std::string key_of(SiteView view);

/// Means over groups of rows, every group weighed alike.
struct AlikeSummary {
  std::size_t groups = 0;
  double mean = 0.0;           ///< of the groups' mean absolute errors
  double median = 0.0;         ///< of the same
  double bias = 0.0;           ///< mean of the groups' biases
  double within = 0.0;         ///< mean of the shares inside p10 .. p90
  double rarely_inside = 0.0;  ///< share of groups of whose rows less than 40 % are inside
};

/// Errors of step times at one view of the sites.
struct SiteErrors {
  ErrorSummary errors;
  AlikeSummary by_source;
  AlikeSummary by_site;  ///< of sites with at least kFewestSiteRows rows
};
inline constexpr std::size_t kFewestSiteRows = 5;
/// By view, of rows with a measured and a predicted time.
using AllSiteErrors = std::array<SiteErrors, kSiteViews.size()>;
[[nodiscard]] AllSiteErrors summarise_sites(const std::vector<PredictedRun>& runs,
                                            std::span<const std::size_t> rows);

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
  AllSiteErrors at_sites;
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
[[nodiscard]] std::vector<GroupSummary> summarise_runs(const std::vector<PredictedRun>& runs,
                                                       const RunSelection& selection);

/// Ids of a table with a column `id`.
[[nodiscard]] std::set<std::string> read_ids(const io::CsvTable& table);

}  // namespace plansearch
