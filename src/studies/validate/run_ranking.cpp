// SPDX-License-Identifier: Apache-2.0
// Computes: regret of the plan predicted fastest, Kendall's tau-b and hits, sweep by sweep.
// Source: definitions in docs/validation.md.
// Assumes: the fastest measured row of a sweep is its best plan; ties go to the earlier row.
// Units: ratios and counts.
// Checked by: tests/unit/studies/run_summary_test.cpp
#include "studies/validate/run_ranking.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "studies/validate/run_groups.hpp"

namespace plansearch {
namespace {

constexpr const char* kSweepColumns =
    "source+hw+framework+precision+model+gpus+seq_len+global_batch";

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0.0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

std::size_t place_of_least(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::min_element(values.begin(), values.end()) - values.begin());
}

void rank(Sweep& sweep, const std::vector<RunRecord>& runs,
          const std::vector<RunPrediction>& predictions) {
  std::vector<double> measured;
  std::vector<double> predicted;
  for (const std::size_t row : sweep.rows) {
    measured.push_back(runs[row].step_time->value());
    predicted.push_back(predictions[row].step_time->value());
  }
  sweep.ranking = rank_sweep(measured, predicted);
  sweep.best = sweep.rows[place_of_least(measured)];
  sweep.chosen = sweep.rows[place_of_least(predicted)];
}

}  // namespace

bool has_both_times(const RunRecord& run, const RunPrediction& prediction) {
  return run.step_time && run.outcome == Outcome::Measured && prediction.step_time;
}

std::vector<Sweep> sweeps_of(const std::vector<RunRecord>& runs,
                             const std::vector<RunPrediction>& predictions,
                             std::span<const std::size_t> rows) {
  std::vector<Sweep> sweeps;
  std::map<std::string, std::size_t> place;
  for (const std::size_t row : rows) {
    if (!has_both_times(runs[row], predictions[row])) continue;
    const auto [found, added] =
        place.emplace(joined_cells(runs[row], kSweepColumns), sweeps.size());
    if (added) sweeps.emplace_back();
    sweeps[found->second].rows.push_back(row);
  }
  std::erase_if(sweeps, [](const Sweep& sweep) { return sweep.rows.size() < 2; });
  for (Sweep& sweep : sweeps) rank(sweep, runs, predictions);
  return sweeps;
}

RankingSummary summarise_sweeps(std::span<const Sweep> sweeps) {
  RankingSummary summary;
  std::vector<double> regrets;
  std::vector<double> taus;
  for (const Sweep& sweep : sweeps) {
    regrets.push_back(sweep.ranking.regret);
    if (sweep.rows.size() >= 3 && sweep.ranking.tau) taus.push_back(*sweep.ranking.tau);
    summary.top1 += sweep.ranking.top1 ? 1 : 0;
    summary.top3 += sweep.ranking.top3 ? 1 : 0;
  }
  summary.sweeps = regrets.size();
  summary.median_regret = median(regrets);
  summary.mean_regret = mean(regrets);
  summary.worst_regret = regrets.empty() ? 0.0 : *std::max_element(regrets.begin(), regrets.end());
  summary.tau_sweeps = taus.size();
  summary.mean_tau = mean(taus);
  summary.median_tau = median(taus);
  return summary;
}

}  // namespace plansearch
