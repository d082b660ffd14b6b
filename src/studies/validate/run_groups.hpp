// SPDX-License-Identifier: Apache-2.0
// How rows of a table of runs are grouped: by cells, by utilisation, by regime; and sweeps, rows
// that share source, machine, framework, precision, model, number of GPUs, sequence length and
// global batch, and so differ in the plan only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/csv.hpp"
#include "plansearch/cluster.hpp"
#include "studies/validate/run_case.hpp"
#include "studies/validate/run_prediction.hpp"
#include "studies/validate/run_record.hpp"
#include "studies/validate/statistics.hpp"

namespace plansearch {

inline constexpr std::string_view kNoRegime = "none of these";

/// What makes a run hard to predict, by name; a run may be in several regimes, or in none.
/// Empty: none of them.
[[nodiscard]] std::vector<std::string> regimes_of(const RunRecord& run, const RunCase& run_case,
                                                  const Cluster& cluster);

/// The groups a row is in: by the cells of columns joined by '+', by "regime" (several, or "none
/// of these"), by "site" (none where it is not known) or by "mfu" (the measured utilisation, below
/// or above 2 %; none without a time).
[[nodiscard]] std::vector<std::string> group_values(const PredictedRun& row, const std::string& by);

/// True of "regime", "mfu" and "site", which no column holds (or need not).
[[nodiscard]] bool is_derived_group(std::string_view by);

/// The names joined by '+'.
[[nodiscard]] std::vector<std::string> split_columns(const std::string& columns);

/// The cells of columns joined by '+', with commas between them.
[[nodiscard]] std::string joined_cells(const RunRecord& run, const std::string& columns);

/// InputError when the table lacks one of the columns joined by '+'.
void require_columns(const io::CsvTable& table, const std::string& columns);

/// A sweep of at least two rows with a measured and a predicted time. Rows that are called
/// infeasible are ranked like any other: they did run.
struct Sweep {
  std::vector<std::size_t> rows;  ///< in order of the table
  std::size_t best = 0;           ///< the row measured fastest
  std::size_t chosen = 0;         ///< the row predicted fastest
  SweepRanking ranking;
};

/// Sweeps among the rows, in order of first appearance.
[[nodiscard]] std::vector<Sweep> sweeps_of(const std::vector<PredictedRun>& runs,
                                           std::span<const std::size_t> rows);

}  // namespace plansearch
