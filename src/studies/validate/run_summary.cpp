// SPDX-License-Identifier: Apache-2.0
// The measures are defined in docs/validation.md.
#include "studies/validate/run_summary.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

using Runs = std::vector<PredictedRun>;
using Rows = std::vector<std::size_t>;
/// One of the times that are predicted for a row.
using TimeOf = std::function<std::optional<SitedTime>(const RunPrediction&)>;

std::optional<SitedTime> answer(const RunPrediction& p) {
  return SitedTime{*p.step_time, *p.p10, *p.p90};
}

/// Of rows with a measured time; those without this prediction are left out.
ErrorSummary time_errors(const Runs& runs, std::span<const std::size_t> rows, const TimeOf& time) {
  std::vector<double> errors;
  std::size_t within = 0;
  for (const std::size_t row : rows) {
    const auto predicted = time(runs[row].predicted);
    if (!predicted) continue;
    const Seconds measured = *runs[row].run.step_time;
    errors.push_back(predicted->time / measured - 1.0);
    within += measured >= predicted->p10 && measured <= predicted->p90 ? 1 : 0;
  }
  ErrorSummary summary = summarise_errors(errors);
  summary.within = within;
  return summary;
}

/// Of groups with `fewest` rows or more.
AlikeSummary alike(const Runs& runs, std::vector<RowGroup> groups, std::size_t fewest,
                   const TimeOf& time) {
  std::sort(groups.begin(), groups.end(),
            [](const RowGroup& a, const RowGroup& b) { return a.value < b.value; });
  AlikeSummary summary;
  std::vector<double> means;
  for (const RowGroup& group : groups) {
    const ErrorSummary errors = time_errors(runs, group.rows, time);
    if (errors.rows < fewest) continue;
    const double inside = static_cast<double>(errors.within) / static_cast<double>(errors.rows);
    means.push_back(errors.mean);
    summary.mean += errors.mean;
    summary.bias += errors.bias;
    summary.within += inside;
    constexpr double kRarely = 0.4;
    summary.rarely_inside += inside < kRarely ? 1.0 : 0.0;
  }
  summary.groups = means.size();
  const double count = std::max(1.0, static_cast<double>(means.size()));
  for (double* value : {&summary.mean, &summary.bias, &summary.within, &summary.rarely_inside}) {
    *value /= count;
  }
  summary.median = median(std::move(means));
  return summary;
}

std::array<ErrorSummary, kMemoryKindCount> memory_errors(const Runs& runs, const Rows& rows) {
  std::array<std::vector<double>, kMemoryKindCount> errors;
  for (const std::size_t row : rows) {
    const auto& [run, predicted] = runs[row];
    if (!run.peak_memory || !run.memory_kind || !predicted.memory) continue;
    errors.at(static_cast<std::size_t>(*run.memory_kind))
        .push_back(*predicted.memory / *run.peak_memory - 1.0);
  }
  std::array<ErrorSummary, kMemoryKindCount> summaries;
  std::transform(errors.begin(), errors.end(), summaries.begin(),
                 [](const auto& kind) { return summarise_errors(kind); });
  return summaries;
}

FeasibilitySummary judge(const Runs& runs, const Rows& rows) {
  FeasibilitySummary summary;
  for (const std::size_t row : rows) {
    const Verdict verdict = runs[row].predicted.verdict;
    if (verdict == Verdict::Inexpressible) continue;
    const bool ran = runs[row].run.outcome == Outcome::Measured;
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
RiskSummary judge_risks(const Runs& runs, const Rows& rows) {
  RiskSummary summary;
  for (std::size_t bin = 0; bin + 1 < kRiskBins.size(); ++bin) {
    summary.bins[bin].low = kRiskBins[bin];
    summary.bins[bin].high = kRiskBins[bin + 1];
  }
  for (const std::size_t row : rows) {
    const RunPrediction& p = runs[row].predicted;
    const bool legal = p.verdict == Verdict::Feasible || p.verdict == Verdict::OutOfMemory;
    if (!legal || !p.memory_risk) continue;
    const double failed = runs[row].run.outcome == Outcome::Measured ? 0.0 : 1.0;
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

GroupSummary summarise(const Runs& runs, const std::string& by, const RowGroup& group,
                       double min_mfu) {
  GroupSummary summary;
  summary.by = by;
  summary.value = group.value;
  summary.rows = group.rows.size();
  Rows timed;
  for (const std::size_t row : group.rows) {
    summary.inexpressible += runs[row].predicted.verdict == Verdict::Inexpressible ? 1 : 0;
    if (!runs[row].has_both_times()) continue;
    if (runs[row].measured_mfu().value_or(1.0) >= min_mfu) timed.push_back(row);
  }
  summary.step_time = time_errors(runs, timed, answer);
  summary.at_sites = summarise_sites(runs, timed);
  summary.memory = memory_errors(runs, group.rows);
  summary.ranking = summarise_sweeps(sweeps_of(runs, group.rows));
  summary.feasibility = judge(runs, group.rows);
  summary.risk = judge_risks(runs, group.rows);
  return summary;
}

}  // namespace

std::string key_of(SiteView view) {
  static constexpr std::array<std::string_view, kSiteViews.size()> kWords{"own_site", "typical",
                                                                          "left_out"};
  return std::string(kWords.at(static_cast<std::size_t>(view)));
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

AllSiteErrors summarise_sites(const Runs& runs, std::span<const std::size_t> rows) {
  const auto by_source = grouped(rows, [&](std::size_t row) -> std::vector<std::string> {
    const std::string& source = runs[row].run.cell("source");
    return source.empty() ? std::vector<std::string>{} : std::vector{source};
  });
  const auto by_site =
      grouped(rows, [&](std::size_t row) { return group_values(runs[row], "site"); });
  AllSiteErrors views;
  for (std::size_t view = 0; view < views.size(); ++view) {
    const TimeOf time = [&](const RunPrediction& p) { return p.at_sites.at(view); };
    views[view] = {time_errors(runs, rows, time), alike(runs, by_source, 1, time),
                   alike(runs, by_site, kFewestSiteRows, time)};
  }
  return views;
}

std::vector<GroupSummary> summarise_runs(const Runs& runs, const RunSelection& selection) {
  RowGroup all;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    if (!selection.excluded.contains(runs[row].run.id)) all.rows.push_back(row);
  }
  std::vector<GroupSummary> summaries{summarise(runs, "all", all, selection.min_mfu)};
  for (const std::string& by : selection.by) {
    auto groups = grouped(all.rows, [&](std::size_t row) { return group_values(runs[row], by); });
    std::stable_partition(groups.begin(), groups.end(),
                          [](const RowGroup& group) { return group.value != kNoRegime; });
    for (const RowGroup& group : groups) {
      summaries.push_back(summarise(runs, by, group, selection.min_mfu));
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
