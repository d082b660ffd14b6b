// SPDX-License-Identifier: Apache-2.0
// The measures are defined in docs/validation.md.
#include "evidence/validate/run_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/names.hpp"
#include "report/columns.hpp"

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
  const auto unpriced = std::ranges::count_if(group.rows, inexpressible);
  return {.by = by,
          .value = group.value,
          .rows = group.rows.size(),
          .inexpressible = static_cast<std::size_t>(unpriced),
          .step_time = time_errors(runs, group.rows, min_mfu),
          .memory = memory_errors(runs, group.rows),
          .feasibility = judge(runs, group.rows)};
}

using Json = nlohmann::ordered_json;
/// The errors of a group that a table shows; null where it has none.
using ErrorsOf = std::function<const ErrorSummary*(const GroupSummary&)>;

constexpr const char* kLegend =
    "\n  mean, median, p90  of |predicted / measured - 1|; bias: mean of predicted / measured - 1\n"
    "  inside             % of measured times between the predicted p10 and p90 (ideal: 80)\n";

constexpr const char* kFeasibilityLegend =
    "  illegal, too large runs that we say cannot run: degrees and rules, or memory; "
    "\"feasible\"\n"
    "                     behind \"failed\": we would have run what crashed\n";

const std::vector<GroupSummary>& groups_of(const RunReport& report) {
  return report.sets.front().groups;
}

const GroupSummary* without_suspects(const RunReport& report, const GroupSummary& group) {
  const auto& groups = report.sets[1].groups;
  const auto same = std::ranges::find_if(groups, [&](const GroupSummary& other) {
    return other.by == group.by && other.value == group.value;
  });
  return same == groups.end() ? nullptr : &*same;
}

/// The errors of every group that has some; beside them those of its rows without suspects.
std::string error_table(const RunReport& report, const std::string& title,
                        const Columns<ErrorSummary>& columns, const ErrorsOf& errors_of,
                        int width) {
  const bool twice = report.sets.size() > 1;
  std::vector<TextColumn> titles{{title, Align::Left}};
  for (const auto& column : columns) titles.push_back(column.title);
  for (const auto& column : columns) {
    if (twice) titles.push_back({column.title.title + "*"});
  }
  TextTable table(titles);
  std::string by = "all";
  bool any = false;
  for (const GroupSummary& group : groups_of(report)) {
    const ErrorSummary* errors = errors_of(group);
    if (errors == nullptr || errors->rows == 0) continue;
    if (std::exchange(by, group.by) != group.by) {
      std::vector<Cell> heading{"by " + by};
      heading.resize(titles.size(), "");
      table.add_row(std::move(heading));
    }
    std::vector<Cell> line{by == "all" ? "all" : "  " + shortened(group.value)};
    for (const auto& column : columns) line.push_back(column.cell(*errors));
    const GroupSummary* trusted = twice ? without_suspects(report, group) : nullptr;
    if (trusted != nullptr && errors_of(*trusted)->rows > 0) {
      for (const auto& column : columns) line.push_back(column.cell(*errors_of(*trusted)));
    }
    line.resize(titles.size(), "-");
    table.add_row(std::move(line));
    any = true;
  }
  return any ? "\n" + table.text(width) : "";
}

std::string memory_tables(const RunReport& report, int columns) {
  std::string text;
  for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    text += error_table(
        report, fmt::format("PEAK MEMORY ({}), error in %", to_text(static_cast<MemoryKind>(kind))),
        error_columns(), [=](const GroupSummary& group) { return &group.memory[kind]; }, columns);
  }
  return text;
}

/// A table of all rows: whether a time can be trusted does not matter to what can run.
std::string feasibility_table(const RunReport& report, int columns) {
  TextTable table({{"FEASIBILITY, rows", Align::Left},
                   {"ran"},
                   {"illegal"},
                   {"too large"},
                   {"failed"},
                   {"illegal"},
                   {"too large"},
                   {"feasible"},
                   {"inexpressible"}});
  for (const GroupSummary& group : groups_of(report)) {
    const FeasibilitySummary& f = group.feasibility;
    const bool quiet = f.measured_illegal + f.measured_too_large + f.failed == 0;
    const bool overview = group.by == "all" || group.by == "source";
    if (is_derived_group(group.by) || (quiet && !overview)) continue;
    std::vector<Cell> line{group.by == "all" ? "all" : group.by + " " + shortened(group.value)};
    for (const std::size_t count :
         {f.measured, f.measured_illegal, f.measured_too_large, f.failed, f.failed_illegal,
          f.failed_too_large, f.failed_called_feasible, group.inexpressible}) {
      line.emplace_back(fmt::format("{}", count));
    }
    table.add_row(std::move(line));
  }
  return "\n" + table.text(columns);
}

/// Reasons and how many rows share each; ids where they are few.
std::string left_out(const RunReport& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [run, predicted] : report.runs) {
    if (predicted.verdict == Verdict::Inexpressible) by_reason[predicted.reason].push_back(run.id);
  }
  if (by_reason.empty()) return {};
  std::string text = "\nROWS THAT CANNOT BE EXPRESSED, by reason\n";
  constexpr std::size_t kShown = 8;
  for (const auto& [reason, ids] : by_reason) {
    text += fmt::format("  {} ({} {}):", reason, ids.size(), ids.size() == 1 ? "row" : "rows");
    for (std::size_t i = 0; i < ids.size() && i < kShown; ++i) text += " " + ids[i];
    text += ids.size() > kShown ? " ...\n" : "\n";
  }
  return text;
}

std::string opening(const RunReport& report) {
  const GroupSummary& all = groups_of(report).front();
  std::string text = fmt::format(
      "{} rows: {} with a measured and a predicted step time, {} failed runs, {} that "
      "cannot be expressed",
      all.rows, all.step_time.rows, all.feasibility.failed, all.inexpressible);
  if (report.sets.size() > 1) text += fmt::format(", {} suspects", report.suspects.size());
  if (report.min_mfu > 0.0) {
    text += fmt::format("; step times below {:.1f} % MFU left out", 100.0 * report.min_mfu);
  }
  const auto chosen = std::ranges::count_if(
      report.runs, [](const PredictedRun& row) { return row.predicted.chosen_micro_batch; });
  if (chosen > 0) {
    text += fmt::format("\n{} row{} without a micro-batch: predicted at the fastest that fits",
                        chosen, chosen == 1 ? "" : "s");
  }
  return text + "\n";
}

/// The summary as aligned tables: step time, memory, feasibility, rows left out.
std::string summary_text(const RunReport& report, int columns) {
  const std::string rows = rows_table(report, columns);
  const bool twice = report.sets.size() > 1;
  const bool rows_say_all = !rows.empty() && groups_of(report).size() == 1 && !twice;
  std::string text = opening(report) + rows +
                     error_table(
                         report, "STEP TIME, error in %", time_error_columns(),
                         [](const GroupSummary& group) { return &group.step_time; }, columns) +
                     memory_tables(report, columns);
  if (!rows_say_all) text += feasibility_table(report, columns);
  text += left_out(report) + kLegend;
  if (!rows_say_all) text += kFeasibilityLegend;
  if (twice) text += "  *                  the same without the rows that --suspect lists\n";
  return wrapped(text, columns);
}

Json feasibility_json(const FeasibilitySummary& f) {
  return {{"measured", f.measured},
          {"measured_called_illegal", f.measured_illegal},
          {"measured_called_out_of_memory", f.measured_too_large},
          {"failed", f.failed},
          {"failed_called_illegal", f.failed_illegal},
          {"failed_called_out_of_memory", f.failed_too_large},
          {"failed_called_feasible", f.failed_called_feasible}};
}

Json summary_json(const std::string& set, const GroupSummary& group) {
  Json memory = Json::object();
  for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    if (group.memory[kind].rows == 0) continue;
    memory[std::string(to_text(static_cast<MemoryKind>(kind)))] =
        object_of(error_columns(), group.memory[kind]);
  }
  return {{"set", set},
          {"by", group.by},
          {"value", group.by == "all" ? Json(nullptr) : Json(group.value)},
          {"rows", group.rows},
          {"inexpressible", group.inexpressible},
          {"step_time", object_of(time_error_columns(), group.step_time)},
          {"memory", std::move(memory)},
          {"feasibility", feasibility_json(group.feasibility)}};
}

/// Some columns of the rows; switches in words.
Json csv_rows(const Json& rows) {
  return array_of(rows, [](const Json& row) {
    Json line;
    for (const char* key : {"id", "measured_step_time_s", "predicted_step_time_s",
                            "predicted_p10_s", "predicted_p90_s", "measured_peak_memory_bytes",
                            "predicted_peak_memory_bytes", "memory_risk", "expressible", "feasible",
                            "reason", "micro_batch", "micro_batch_chosen"}) {
      const Json& value = row.at(key);
      line[key] = value.is_boolean() ? Json(json_text(value)) : value;
    }
    return line;
  });
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

std::string render_runs(const RunReport& report, Format format, int columns) {
  Json summary = Json::array();
  for (const SummarySet& set : report.sets) {
    for (const GroupSummary& group : set.groups) summary.push_back(summary_json(set.name, group));
  }
  Json rows = rows_json(report);
  Json csv = csv_rows(rows);
  const Answer answer{{{"schema", "plansearch/validate/v1"},
                       {"table", "runs"},
                       {"min_mfu", report.min_mfu},
                       {"rows", std::move(rows)},
                       {"summary", std::move(summary)}},
                      std::move(csv),
                      1};
  return render_answer(answer, format, [&] { return summary_text(report, columns); });
}

}  // namespace plansearch
