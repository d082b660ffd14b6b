// SPDX-License-Identifier: Apache-2.0
// Tables about all groups of a summary, with and without the rows under suspicion.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "studies/validate/error_columns.hpp"
#include "studies/validate/run_report.hpp"

namespace plansearch {
namespace {

using Cells = std::vector<std::string>;
/// No cells: the group has nothing to say here.
using CellsOf = std::function<Cells(const GroupSummary&)>;

void append(Cells& cells, Cells more) {
  for (std::string& cell : more) cells.push_back(std::move(cell));
}

template <typename Row>
Cells titles_of(const Columns<Row>& columns) {
  Cells titles;
  for (const auto& column : columns) titles.push_back(column.title.title);
  return titles;
}

template <typename Row>
Cells cells_of(const Columns<Row>& columns, const Row& row) {
  Cells cells;
  for (const auto& column : columns) cells.push_back(column.cell(row).text);
  return cells;
}

/// One table: the cells of every group, repeated for the group without suspects.
class Section {
 public:
  Section(const RunReport& report, const std::string& title, Cells titles)
      : report_(report), width_(titles.size()), table_(columns(title, std::move(titles))) {}

  void add(const GroupSummary& group, const CellsOf& cells) {
    add(group, group.by == "all" ? "all" : "  " + shortened(group.value), cells);
  }
  void add(const GroupSummary& group, const std::string& name, const CellsOf& cells) {
    Cells line = cells(group);
    if (line.empty()) return;
    if (group.by != by_ && group.by != "all") {
      by_ = group.by;
      add_row({"by " + by_});
    }
    if (is_twice()) {
      const GroupSummary* trusted = trusted_of(group);
      append(line, trusted == nullptr ? Cells() : cells(*trusted));
    }
    line.insert(line.begin(), name);
    add_row(std::move(line));
    any_ = true;
  }
  [[nodiscard]] std::string text(int columns) const {
    return any_ ? "\n" + table_.text(columns) : "";
  }

 private:
  [[nodiscard]] bool is_twice() const { return report_.sets.size() > 1; }

  [[nodiscard]] std::vector<TextColumn> columns(const std::string& title, Cells titles) const {
    std::vector<TextColumn> all{{title, Align::Left}};
    for (const std::string& column : titles) all.push_back({column});
    if (!is_twice()) return all;
    for (const std::string& column : titles) all.push_back({column + "*"});
    return all;
  }

  [[nodiscard]] const GroupSummary* trusted_of(const GroupSummary& group) const {
    const auto& groups = report_.sets[1].groups;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const GroupSummary& other) {
      return other.by == group.by && other.value == group.value;
    });
    return same == groups.end() ? nullptr : &*same;
  }

  /// Filled up: a line of a heading with nothing, one without trusted rows with dashes.
  void add_row(Cells line) {
    const char* rest = line.size() > 1 ? "-" : "";
    line.resize(1 + width_ * (is_twice() ? 2 : 1), rest);
    table_.add_row({line.begin(), line.end()});
  }

  const RunReport& report_;
  std::size_t width_;
  TextTable table_;
  std::string by_;
  bool any_ = false;
};

const std::vector<GroupSummary>& groups_of(const RunReport& report) {
  return report.sets.front().groups;
}

std::string count(std::size_t value) {
  return fmt::format("{}", value);
}

Cells view_cells(const ErrorSummary& errors) {
  if (errors.rows == 0) return {"-", "-", "-"};
  const double inside = static_cast<double>(errors.within) / static_cast<double>(errors.rows);
  return {percent_cell(errors.mean), bias_cell(errors.bias), fmt::format("{:.0f}", 100.0 * inside)};
}

Cells alike_cells(const AlikeSummary& alike) {
  if (alike.groups == 0) return {"-", "-", "-"};
  return {percent_cell(alike.mean), bias_cell(alike.bias),
          fmt::format("{:.0f}", 100.0 * alike.within)};
}

/// A line of means over groups of rows; none where they are one group, or none.
CellsOf alike_line(AlikeSummary SiteErrors::*which) {
  return [which](const GroupSummary& group) -> Cells {
    const auto groups = (group.at_sites[1].*which).groups;
    if (groups < 2) return {};
    Cells cells{count(groups)};
    for (const SiteErrors& at : group.at_sites) append(cells, alike_cells(at.*which));
    return cells;
  };
}

std::string sites_line(const GroupSummary& all, const char* rows) {
  const AlikeSummary& left_out = all.at_sites[2].by_site;
  if (left_out.groups < 2) return {};
  return fmt::format(
      "{}: left out, {} sites of {} rows or more: median of their mean errors {:.1f} %, bias "
      "{:+.1f} %, {:.0f} % inside p10 - p90, {:.0f} % of sites below 40 %\n",
      rows, left_out.groups, kFewestSiteRows, 100.0 * left_out.median, 100.0 * left_out.bias,
      100.0 * left_out.within, 100.0 * left_out.rarely_inside);
}

std::string site_table(const RunReport& report, int columns) {
  Section section(
      report, "STEP TIME BY SITE, error in %",
      {"rows", "own", "bias", "inside", "typical", "bias", "inside", "left out", "bias", "inside"});
  for (const GroupSummary& group : groups_of(report)) {
    section.add(group, [](const GroupSummary& g) -> Cells {
      if (g.at_sites[1].errors.rows == 0) return {};
      Cells cells{count(g.at_sites[1].errors.rows)};
      for (const SiteErrors& at : g.at_sites) append(cells, view_cells(at.errors));
      return cells;
    });
    if (group.by != "all") continue;
    section.add(group, "all, sources weighed alike", alike_line(&SiteErrors::by_source));
    section.add(group, "all, sites of 5 rows or more weighed alike",
                alike_line(&SiteErrors::by_site));
  }
  std::string text = section.text(columns);
  for (std::size_t set = 0; set < report.sets.size(); ++set) {
    text += sites_line(report.sets[set].groups.front(), set == 0 ? "all rows" : "without suspects");
  }
  return text;
}

std::string ranking_table(const RunReport& report, int columns) {
  Section section(report, "RANKING inside sweeps",
                  {"sweeps", "regret", "median", "top-1", "top-3", "of >= 3", "tau-b"});
  for (const GroupSummary& group : groups_of(report)) {
    if (is_derived_group(group.by)) continue;  // would cut sweeps into pieces
    section.add(group, [](const GroupSummary& g) -> Cells {
      const RankingSummary& r = g.ranking;
      if (r.sweeps == 0) return {};
      return {count(r.sweeps),
              percent_cell(r.mean_regret),
              percent_cell(r.median_regret),
              fmt::format("{}/{}", r.top1, r.sweeps),
              fmt::format("{}/{}", r.top3, r.sweeps),
              count(r.tau_sweeps),
              r.tau_sweeps == 0 ? "-" : fmt::format("{:.3f}", r.mean_tau)};
    });
  }
  return section.text(columns);
}

std::string overview_name(const GroupSummary& group) {
  return group.by == "all" ? "all" : group.by + " " + shortened(group.value);
}

bool is_overview(const GroupSummary& group) {
  return group.by == "all" || group.by == "source";
}

/// Of all rows: which of them can be trusted does not matter to what can run.
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
    if (is_derived_group(group.by) || (quiet && !is_overview(group))) continue;
    table.add_row({overview_name(group), count(f.measured), count(f.measured_illegal),
                   count(f.measured_too_large), count(f.failed), count(f.failed_illegal),
                   count(f.failed_too_large), count(f.failed_called_feasible),
                   count(group.inexpressible)});
  }
  return "\n" + table.text(columns);
}

/// Stated against observed, in the bins of the verdicts.
std::string risk_table(const RunReport& report, int columns) {
  TextTable table({{"MEMORY RISK, failed of rows", Align::Left},
                   {"<= 0.1"},
                   {"<= 0.5"},
                   {"<= 0.9"},
                   {"above"},
                   {"Brier"},
                   {"base rate"},
                   {"hard limit"}});
  bool any = false;
  for (const GroupSummary& group : groups_of(report)) {
    const RiskSummary& risk = group.risk;
    if (!is_overview(group) || risk.rows == 0) continue;
    std::vector<Cell> line{overview_name(group)};
    for (const RiskBin& bin : risk.bins) {
      line.emplace_back(bin.rows == 0 ? "-"
                                      : fmt::format("{}/{} ({:.0f} % stated)", bin.failed, bin.rows,
                                                    100.0 * bin.stated));
    }
    for (const double score : {risk.brier, risk.brier_base, risk.brier_hard}) {
      line.emplace_back(fmt::format("{:.3f}", score));
    }
    table.add_row(std::move(line));
    any = true;
  }
  return any ? "\n" + table.text(columns) : "";
}

}  // namespace

std::string time_tables(const RunReport& report, int columns) {
  Section section(report, "STEP TIME, error in %", titles_of(time_error_columns()));
  for (const GroupSummary& group : groups_of(report)) {
    section.add(group, [](const GroupSummary& g) {
      return g.step_time.rows == 0 ? Cells() : cells_of(time_error_columns(), g.step_time);
    });
  }
  return section.text(columns) + site_table(report, columns);
}

std::string memory_tables(const RunReport& report, int columns) {
  std::string text;
  for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    Section section(
        report, fmt::format("PEAK MEMORY ({}), error in %", to_text(static_cast<MemoryKind>(kind))),
        titles_of(error_columns()));
    for (const GroupSummary& group : groups_of(report)) {
      section.add(group, [&](const GroupSummary& g) {
        return g.memory[kind].rows == 0 ? Cells() : cells_of(error_columns(), g.memory[kind]);
      });
    }
    text += section.text(columns);
  }
  return text;
}

std::string plan_tables(const RunReport& report, int columns) {
  return ranking_table(report, columns) + feasibility_table(report, columns) +
         risk_table(report, columns);
}

}  // namespace plansearch
