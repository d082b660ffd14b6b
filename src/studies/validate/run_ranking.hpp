// SPDX-License-Identifier: Apache-2.0
// Rankings of plans inside sweeps: rows that share source, machine, framework, precision, model,
// number of GPUs, sequence length and global batch, and so differ in the plan only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "studies/validate/run_prediction.hpp"
#include "studies/validate/run_record.hpp"
#include "studies/validate/statistics.hpp"

namespace plansearch {

/// A sweep of at least two rows with a measured and a predicted time. Rows that are called
/// infeasible are ranked like any other: they did run.
struct Sweep {
  std::vector<std::size_t> rows;  ///< in order of the table
  std::size_t best = 0;           ///< the row measured fastest
  std::size_t chosen = 0;         ///< the row predicted fastest
  SweepRanking ranking;
};

/// Sweeps among the rows, in order of first appearance.
[[nodiscard]] std::vector<Sweep> sweeps_of(const std::vector<RunRecord>& runs,
                                           const std::vector<RunPrediction>& predictions,
                                           std::span<const std::size_t> rows);

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

/// A row that ran and that has a prediction: only these enter errors and rankings.
[[nodiscard]] bool has_both_times(const RunRecord& run, const RunPrediction& prediction);

}  // namespace plansearch
