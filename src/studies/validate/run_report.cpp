// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/columns.hpp"
#include "report/json_text.hpp"

namespace plansearch {
namespace {

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
  const auto same = std::find_if(groups.begin(), groups.end(), [&](const GroupSummary& other) {
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
  const auto chosen =
      std::count_if(report.runs.begin(), report.runs.end(),
                    [](const PredictedRun& row) { return row.predicted.chosen_micro_batch; });
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

/// One entry of summary[].
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
