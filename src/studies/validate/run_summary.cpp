// SPDX-License-Identifier: Apache-2.0
// The measures are defined in docs/validation.md.
#include "studies/validate/run_summary.hpp"

#include <algorithm>

#include "base/names.hpp"

namespace plansearch {
namespace {

using Runs = std::vector<PredictedRun>;
using Rows = std::vector<std::size_t>;

constexpr double kLowMfu = 0.02;
constexpr const char* kNoRegime = "none of these";

/// The groups of `by` that a row is in.
std::vector<std::string> group_values(const PredictedRun& row, const std::string& by) {
  const RunPrediction& prediction = row.predicted;
  if (by == "regime") {
    return prediction.regimes.empty() ? std::vector<std::string>{kNoRegime} : prediction.regimes;
  }
  if (by == "site") {
    return prediction.site.empty() ? std::vector<std::string>{} : std::vector{prediction.site};
  }
  if (by == "mfu") {
    const auto mfu = row.measured_mfu();
    if (!mfu) return {};
    return {*mfu < kLowMfu ? "< 2 %" : ">= 2 %"};
  }
  return {joined_cells(row.run.cells, by).value_or("")};
}

/// Rows that are slower than `min_mfu`, or lack one of the times, do not count.
ErrorSummary time_errors(const Runs& runs, const Rows& rows, double min_mfu) {
  std::vector<double> errors;
  std::size_t within = 0;
  for (const std::size_t row : rows) {
    const RunPrediction& predicted = runs[row].predicted;
    if (!runs[row].has_both_times()) continue;
    if (runs[row].measured_mfu().value_or(1.0) < min_mfu) continue;
    const Seconds measured = *runs[row].run.step_time;
    errors.push_back(*predicted.step_time / measured - 1.0);
    within += measured >= *predicted.p10 && measured <= *predicted.p90 ? 1 : 0;
  }
  ErrorSummary summary = summarise_errors(errors);
  summary.within = within;
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

GroupSummary summarise(const Runs& runs, const std::string& by, const RowGroup& group,
                       double min_mfu) {
  const auto inexpressible = [&](std::size_t row) {
    return runs[row].predicted.verdict == Verdict::Inexpressible;
  };
  const auto unpriced = std::count_if(group.rows.begin(), group.rows.end(), inexpressible);
  return {.by = by,
          .value = group.value,
          .rows = group.rows.size(),
          .inexpressible = static_cast<std::size_t>(unpriced),
          .step_time = time_errors(runs, group.rows, min_mfu),
          .memory = memory_errors(runs, group.rows),
          .feasibility = judge(runs, group.rows)};
}

}  // namespace

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

bool is_derived_group(std::string_view by) {
  return by == "regime" || by == "mfu" || by == "site";
}

void require_columns(const io::CsvTable& table, const std::string& columns) {
  if (is_derived_group(columns)) return;
  for (const std::string& column : split(columns, "+")) table.require(column);
}

}  // namespace plansearch
