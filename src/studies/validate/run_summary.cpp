// SPDX-License-Identifier: Apache-2.0
// Computes: errors, interval coverage and feasibility by group of rows.
// Source: definitions in docs/validation.md.
// Assumes: failed rows have no time.
// Units: ratios and counts.
// Checked by: tests/unit/studies/run_summary_test.cpp
#include "studies/validate/run_summary.hpp"

#include <algorithm>
#include <map>

#include "plansearch/error.hpp"
#include "studies/validate/run_groups.hpp"

namespace plansearch {
namespace {

using Rows = std::vector<std::size_t>;

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
    summary.ranking = summarise_sweeps(sweeps_of(runs_, predictions_, rows));
    summary.feasibility = judge(rows);
    summary.risk = judge_risks(rows);
    return summary;
  }

 private:
  void add_step_times(const Rows& rows, GroupSummary& summary) const {
    std::vector<double> errors;
    Rows judged;
    for (const std::size_t row : rows) {
      if (!has_both_times(runs_[row], predictions_[row])) continue;
      const Seconds measured = *runs_[row].step_time;
      const RunPrediction& predicted = predictions_[row];
      if (predicted.mfu(measured).value_or(1.0) < selection_.min_mfu) continue;
      judged.push_back(row);
      errors.push_back(*predicted.step_time / measured - 1.0);
      if (measured >= *predicted.p10 && measured <= *predicted.p90) ++summary.within_interval;
    }
    summary.step_time = summarise_errors(errors);
    summary.at_sites = summarise_sites(runs_, predictions_, judged);
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

  /// Risks are judged where failures were recorded: elsewhere only what ran was published.
  [[nodiscard]] RiskSummary judge_risks(const Rows& rows) const {
    RiskSummary summary;
    for (std::size_t bin = 0; bin + 1 < kRiskBins.size(); ++bin) {
      summary.bins[bin].low = kRiskBins[bin];
      summary.bins[bin].high = kRiskBins[bin + 1];
    }
    for (const std::size_t row : rows) {
      const RunPrediction& p = predictions_[row];
      const bool legal = p.verdict == Verdict::Feasible || p.verdict == Verdict::OutOfMemory;
      if (!legal || !p.memory_risk) continue;
      const double failed = runs_[row].outcome == Outcome::Measured ? 0.0 : 1.0;
      const double beyond = *p.needed > *p.memory_limit ? 1.0 : 0.0;
      ++summary.rows;
      summary.failed += failed > 0.0 ? 1 : 0;
      summary.brier += (*p.memory_risk - failed) * (*p.memory_risk - failed);
      summary.brier_hard += (beyond - failed) * (beyond - failed);
      const auto bin = std::find_if(summary.bins.begin(), summary.bins.end() - 1,
                                    [&](const RiskBin& b) { return *p.memory_risk <= b.high; });
      ++bin->rows;
      bin->failed += failed > 0.0 ? 1 : 0;
      bin->stated += *p.memory_risk;
    }
    if (summary.failed == 0) return {};
    const auto all = static_cast<double>(summary.rows);
    const double share = static_cast<double>(summary.failed) / all;
    summary.brier /= all;
    summary.brier_hard /= all;
    summary.brier_base = share * (1.0 - share);
    for (RiskBin& bin : summary.bins) bin.stated /= std::max(1.0, static_cast<double>(bin.rows));
    return summary;
  }

  const std::vector<RunRecord>& runs_;
  const std::vector<RunPrediction>& predictions_;
  const RunSelection& selection_;
};

/// Groups of rows with the same values, in order of first appearance; the leftover ones last.
std::vector<std::pair<std::string, Rows>> group_rows(const std::vector<RunRecord>& runs,
                                                     const std::vector<RunPrediction>& predictions,
                                                     const Rows& rows, const std::string& by) {
  std::vector<std::pair<std::string, Rows>> groups;
  std::map<std::string, std::size_t> place;
  for (const std::size_t row : rows) {
    for (const std::string& value : group_values(runs[row], predictions[row], by)) {
      const auto [found, added] = place.emplace(value, groups.size());
      if (added) groups.push_back({value, {}});
      groups[found->second].second.push_back(row);
    }
  }
  std::stable_partition(groups.begin(), groups.end(),
                        [](const auto& group) { return group.first != kNoRegime; });
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
    for (const auto& [value, members] : group_rows(runs, predictions, rows, by)) {
      summaries.push_back(summariser.summarise(by, value, members));
    }
  }
  return summaries;
}

std::set<std::string> read_ids(const io::CsvTable& table) {
  std::set<std::string> ids;
  for (const io::CsvRow& row : table.rows()) ids.insert(table.text(row, "id"));
  return ids;
}

}  // namespace plansearch
