// SPDX-License-Identifier: Apache-2.0
#include "report/sensitivity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "report/columns.hpp"
#include "report/plan_fields.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kShown = 20;
constexpr double kLeast = 5e-5;  ///< changes that would be printed as nothing

std::string percent(double change) {
  return fmt::format("{:+.2f} %", change * 100.0);
}

Columns<SensitivityRow> columns_of_rows(const SensitivityReport& report) {
  using Row = const SensitivityRow&;
  Columns<SensitivityRow> columns{
      {.key = "key", .value = [](Row r) { return r.key; }, .title = {"value", Align::Left}},
      {.key = "value", .value = [](Row r) { return r.value; }, .title = {"now"}},
      {.key = "evidence",
       .value = [](Row r) -> nlohmann::ordered_json {
         if (!r.evidence) return nullptr;
         return std::string(to_text(*r.evidence));
       },
       .title = {"evidence", Align::Left, 1},
       .cell = [](Row r) { return r.evidence ? Cell(std::string(to_text(*r.evidence))) : "-"; }},
      {.key = "step_change",
       .value = [](Row r) { return r.step_change; },
       .title = {"step"},
       .cell = [](Row r) { return Cell(percent(r.step_change)); }},
      {.key = "memory_change_bytes",
       .value = [](Row r) { return whole_bytes(r.memory_change); },
       .title = {"memory"},
       .cell =
           [](Row r) {
             if (r.memory_change == Bytes(0)) return Cell("-");
             return Cell((r.memory_change < Bytes(0) ? "-" : "+") +
                         to_text(Bytes(std::abs(r.memory_change.value()))));
           }}};
  if (report.goal) {
    columns.push_back({.key = "needed",
                       .value = [](Row r) { return or_null(r.needed); },
                       .title = {fmt::format("for {}", to_text(*report.goal))},
                       .cell = [](Row r) { return Cell(r.needed.value_or("-")); }});
  }
  return columns;
}

/// Those that move something one can see, as many as one reads.
std::vector<SensitivityRow> rows_shown(const SensitivityReport& report) {
  std::vector<SensitivityRow> shown;
  for (const SensitivityRow& row : report.rows) {
    const bool seen = std::abs(row.step_change) >= kLeast || row.memory_change != Bytes(0);
    if (seen && shown.size() < kShown) shown.push_back(row);
  }
  return shown;
}

}  // namespace

TextTable sensitivity_table(const SensitivityReport& report) {
  return table_of(columns_of_rows(report), rows_shown(report));
}

std::string sensitivity_text(const SensitivityReport& report, int columns) {
  const std::size_t shown = rows_shown(report).size();
  const std::size_t rest =
      report.rows.size() - shown + static_cast<std::size_t>(report.without_effect);
  std::string text =
      fmt::format("what the step depends on: each value {:.0f} % higher, the plan the same\n",
                  (report.factor - 1.0) * 100.0);
  text += shown == 0 ? "nothing\n" : sensitivity_table(report).text(columns);
  text += fmt::format("{} more values move it less, or not at all; --set KEY=VALUE changes one\n",
                      rest);
  if (report.goal) {
    text += fmt::format(
        "for {}: what each would have to be, the others as they are; -: it alone "
        "does not get there\n",
        to_text(*report.goal));
  }
  if (!report.refused.empty()) {
    text += fmt::format("not by themselves: {}\n", fmt::join(report.refused, ", "));
  }
  return text;
}

nlohmann::ordered_json to_json(const SensitivityReport& report) {
  return {{"factor", report.factor},
          {"goal_step_s", or_null(report.goal)},
          {"values", objects_of(columns_of_rows(report), report.rows)},
          {"without_effect", report.without_effect},
          {"refused", report.refused}};
}

}  // namespace plansearch
