// SPDX-License-Identifier: Apache-2.0
// Computes: errors, rankings inside sweeps, interval coverage and feasibility by group of rows.
// Source: definitions in docs/validation.md.
// Assumes: failed rows have no time; the fastest measured row of a sweep is its best plan.
// Units: ratios and counts.
// Checked by: tests/unit/studies/run_summary_test.cpp
#include "plansearch/studies/run_summary.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "plansearch/base/error.hpp"

namespace plansearch {
namespace {

using Rows = std::vector<std::size_t>;

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0.0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

std::vector<std::string> split_columns(const std::string& columns) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= columns.size();) {
    const std::size_t end = std::min(columns.find('+', at), columns.size());
    names.push_back(columns.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::string joined_cells(const RunRecord& run, const std::string& columns) {
  std::string value;
  for (const std::string& column : split_columns(columns)) {
    if (!value.empty()) value += ", ";
    value += run.cell(column);
  }
  return value;
}

class Summariser {
 public:
  Summariser(const std::vector<RunRecord>& runs, const std::vector<RunPrediction>& predictions,
             const RunSelection& selection)
      : runs_(runs), predictions_(predictions), selection_(selection) {}

  [[nodiscard]] GroupSummary summarise(const std::string& by, const std::string& value,
                                       const Rows& rows) const {
    GroupSummary summary;
    summary.by = by;
    summary.value = value;
    summary.rows = rows.size();
    summary.inexpressible =
        static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](std::size_t row) {
          return predictions_[row].verdict == Verdict::Inexpressible;
        }));
    add_step_times(rows, summary);
    add_memory(rows, summary);
    summary.ranking = rank(rows);
    summary.feasibility = judge(rows);
    return summary;
  }

 private:
  [[nodiscard]] bool has_time(std::size_t row) const {
    return runs_[row].step_time && runs_[row].outcome == Outcome::Measured &&
           predictions_[row].step_time;
  }

  void add_step_times(const Rows& rows, GroupSummary& summary) const {
    std::vector<double> errors;
    for (const std::size_t row : rows) {
      if (!has_time(row)) continue;
      const Seconds measured = *runs_[row].step_time;
      const RunPrediction& predicted = predictions_[row];
      if (predicted.mfu(measured).value_or(1.0) < selection_.min_mfu) continue;
      errors.push_back(*predicted.step_time / measured - 1.0);
      if (measured >= *predicted.p10 && measured <= *predicted.p90) ++summary.within_interval;
    }
    summary.step_time = summarise_errors(errors);
  }

  void add_memory(const Rows& rows, GroupSummary& summary) const {
    std::array<std::vector<double>, kMemoryKindCount> errors;
    for (const std::size_t row : rows) {
      const RunRecord& run = runs_[row];
      if (!run.peak_memory || !run.memory_kind || !predictions_[row].memory) continue;
      errors[static_cast<std::size_t>(*run.memory_kind)].push_back(
          *predictions_[row].memory / *run.peak_memory - 1.0);
    }
    for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
      summary.memory[kind] = summarise_errors(errors[kind]);
    }
  }

  [[nodiscard]] RankingSummary rank(const Rows& rows) const {
    static const std::string kSweep =
        "source+hw+framework+precision+model+gpus+seq_len+global_batch";
    std::map<std::string, Rows> sweeps;
    for (const std::size_t row : rows) {
      if (has_time(row)) sweeps[joined_cells(runs_[row], kSweep)].push_back(row);
    }
    RankingSummary ranking;
    std::vector<double> regrets;
    std::vector<double> taus;
    for (const auto& [key, members] : sweeps) {
      if (members.size() < 2) continue;
      const SweepRanking sweep = rank_one(members);
      regrets.push_back(sweep.regret);
      if (sweep.rows >= 3) taus.push_back(sweep.tau);
      ranking.top1 += sweep.top1 ? 1 : 0;
      ranking.top3 += sweep.top3 ? 1 : 0;
    }
    ranking.sweeps = regrets.size();
    ranking.median_regret = median(regrets);
    ranking.mean_regret = mean(regrets);
    ranking.worst_regret =
        regrets.empty() ? 0.0 : *std::max_element(regrets.begin(), regrets.end());
    ranking.tau_sweeps = taus.size();
    ranking.mean_tau = mean(taus);
    ranking.median_tau = median(taus);
    return ranking;
  }

  [[nodiscard]] SweepRanking rank_one(const Rows& members) const {
    std::vector<double> measured;
    std::vector<double> predicted;
    for (const std::size_t row : members) {
      measured.push_back(runs_[row].step_time->value());
      predicted.push_back(predictions_[row].step_time->value());
    }
    return rank_sweep(measured, predicted);
  }

  [[nodiscard]] FeasibilitySummary judge(const Rows& rows) const {
    FeasibilitySummary summary;
    for (const std::size_t row : rows) {
      const Verdict verdict = predictions_[row].verdict;
      if (verdict == Verdict::Inexpressible) continue;
      const bool ran = runs_[row].outcome == Outcome::Measured;
      ++(ran ? summary.measured : summary.failed);
      if (verdict == Verdict::Illegal) {
        ++(ran ? summary.measured_illegal : summary.failed_illegal);
      } else if (verdict == Verdict::OutOfMemory) {
        ++(ran ? summary.measured_too_large : summary.failed_too_large);
      } else if (!ran) {
        ++summary.failed_called_feasible;
      }
    }
    return summary;
  }

  const std::vector<RunRecord>& runs_;
  const std::vector<RunPrediction>& predictions_;
  const RunSelection& selection_;
};

/// Groups of rows with the same cells, in order of first appearance.
std::vector<std::pair<std::string, Rows>> group_rows(const std::vector<RunRecord>& runs,
                                                     const Rows& rows, const std::string& by) {
  std::vector<std::pair<std::string, Rows>> groups;
  std::map<std::string, std::size_t> place;
  for (const std::size_t row : rows) {
    const std::string value = joined_cells(runs[row], by);
    const auto [found, added] = place.emplace(value, groups.size());
    if (added) groups.push_back({value, {}});
    groups[found->second].second.push_back(row);
  }
  return groups;
}

}  // namespace

std::vector<GroupSummary> summarise_runs(const std::vector<RunRecord>& runs,
                                         const std::vector<RunPrediction>& predictions,
                                         const RunSelection& selection) {
  PLANSEARCH_CHECK(runs.size() == predictions.size());
  Rows rows;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    if (!selection.excluded.contains(runs[row].id)) rows.push_back(row);
  }
  const Summariser summariser(runs, predictions, selection);
  std::vector<GroupSummary> summaries{summariser.summarise("all", "", rows)};
  for (const std::string& by : selection.by) {
    for (const auto& [value, members] : group_rows(runs, rows, by)) {
      summaries.push_back(summariser.summarise(by, value, members));
    }
  }
  return summaries;
}

void require_columns(const io::CsvTable& table, const std::string& columns) {
  for (const std::string& column : split_columns(columns)) table.require(column);
}

std::set<std::string> read_ids(const io::CsvTable& table) {
  std::set<std::string> ids;
  for (const io::CsvRow& row : table.rows()) ids.insert(table.text(row, "id"));
  return ids;
}

}  // namespace plansearch
