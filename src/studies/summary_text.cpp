// SPDX-License-Identifier: Apache-2.0
#include "summary_text.hpp"

#include <fmt/format.h>

#include <map>

#include "plansearch/report/text_table.hpp"

namespace plansearch {
namespace {

std::string name_of(const GroupSummary& group) {
  return group.by == "all" ? "all" : fmt::format("{} {}", group.by, group.value);
}

std::string count(std::size_t value) {
  return fmt::format("{}", value);
}

void append(std::vector<std::string>& cells, std::vector<std::string> more) {
  for (std::string& cell : more) cells.push_back(std::move(cell));
}

std::string step_times(const std::vector<GroupSummary>& groups) {
  TextTable table({{"step time", Align::Left},
                   {"rows"},
                   {"mean %"},
                   {"median %"},
                   {"p90 %"},
                   {"bias %"},
                   {"in p10-p90 %"}});
  for (const GroupSummary& group : groups) {
    if (group.step_time.rows == 0) continue;
    std::vector<std::string> cells{name_of(group)};
    append(cells, error_cells(group.step_time));
    cells.push_back(percent_cell(static_cast<double>(group.within_interval) /
                                 static_cast<double>(group.step_time.rows)));
    table.add_row(std::move(cells));
  }
  return table.text();
}

std::string memories(const std::vector<GroupSummary>& groups) {
  TextTable table({{"peak memory", Align::Left},
                   {"kind", Align::Left},
                   {"rows"},
                   {"mean %"},
                   {"median %"},
                   {"p90 %"},
                   {"bias %"}});
  bool any = false;
  for (const GroupSummary& group : groups) {
    for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
      if (group.memory[kind].rows == 0) continue;
      std::vector<std::string> cells{name_of(group),
                                     std::string(to_text(static_cast<MemoryKind>(kind)))};
      append(cells, error_cells(group.memory[kind]));
      table.add_row(std::move(cells));
      any = true;
    }
  }
  return any ? "\n" + table.text() : "";
}

std::string rankings(const std::vector<GroupSummary>& groups) {
  TextTable table({{"ranking in sweeps", Align::Left},
                   {"sweeps"},
                   {"median regret %"},
                   {"mean regret %"},
                   {"top-1"},
                   {"top-3"},
                   {"with >= 3"},
                   {"mean tau-b"}});
  bool any = false;
  for (const GroupSummary& group : groups) {
    const RankingSummary& r = group.ranking;
    if (r.sweeps == 0) continue;
    table.add_row({name_of(group), count(r.sweeps), percent_cell(r.median_regret),
                   percent_cell(r.mean_regret), count(r.top1), count(r.top3), count(r.tau_sweeps),
                   r.tau_sweeps == 0 ? "-" : fmt::format("{:.3f}", r.mean_tau)});
    any = true;
  }
  return any ? "\n" + table.text() : "";
}

std::string feasibilities(const std::vector<GroupSummary>& groups) {
  TextTable table({{"feasibility", Align::Left},
                   {"ran"},
                   {"called illegal"},
                   {"called too large"},
                   {"failed"},
                   {"called illegal"},
                   {"called too large"},
                   {"called feasible"},
                   {"inexpressible"}});
  for (const GroupSummary& group : groups) {
    const FeasibilitySummary& f = group.feasibility;
    table.add_row({name_of(group), count(f.measured), count(f.measured_illegal),
                   count(f.measured_too_large), count(f.failed), count(f.failed_illegal),
                   count(f.failed_too_large), count(f.failed_called_feasible),
                   count(group.inexpressible)});
  }
  return "\n" + table.text();
}

/// Reasons and how many rows share each; ids where they are few.
std::string left_out(const RunReport& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    if (report.predictions[i].verdict != Verdict::Inexpressible) continue;
    by_reason[report.predictions[i].reason].push_back(report.runs[i].id);
  }
  if (by_reason.empty()) return {};
  std::string text = "\nrows that cannot be expressed\n";
  constexpr std::size_t kShown = 8;
  for (const auto& [reason, ids] : by_reason) {
    text += fmt::format("  {} ({} rows):", reason, ids.size());
    for (std::size_t i = 0; i < ids.size() && i < kShown; ++i) text += " " + ids[i];
    text += ids.size() > kShown ? " ...\n" : "\n";
  }
  return text;
}

}  // namespace

std::string percent_cell(double ratio) { return fmt::format("{:.1f}", 100.0 * ratio); }

std::vector<std::string> error_cells(const ErrorSummary& e) {
  if (e.rows == 0) return {"0", "-", "-", "-", "-"};
  return {count(e.rows), percent_cell(e.mean), percent_cell(e.median), percent_cell(e.p90),
          fmt::format("{:+.1f}", 100.0 * e.bias)};
}

std::string summary_text(const RunReport& report) {
  std::string text;
  for (const SummarySet& set : report.sets) {
    if (report.sets.size() > 1) {
      text += fmt::format("{}== {} ==\n", text.empty() ? "" : "\n",
                          set.name == "all" ? "all rows" : "without the suspect rows");
    }
    text += step_times(set.groups) + memories(set.groups) + rankings(set.groups) +
            feasibilities(set.groups);
  }
  return text + left_out(report);
}

}  // namespace plansearch
