// SPDX-License-Identifier: Apache-2.0
#include "report/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.hpp"
#include "report/columns.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// "+1.2 ms", "-3 GiB"; signs of equal values are left out.
template <typename Q>
Cell difference(Q from, Q to) {
  const double change = (to - from) / (from + to);
  if (std::abs(change) < 1e-6) return "0";
  Cell cell(to > from ? to - from : from - to);
  cell.lead = to > from ? "+" : "-";
  return cell;
}

template <typename Q>
void add_row(TextTable& table, const std::string& name, Q plan, Q rival) {
  if (plan == Q(0) && rival == Q(0)) return;
  table.add_row({name, plan, rival, difference(plan, rival)});
}

template <typename Breakdown>
void add_rows(TextTable& table, const std::string& whole, const Breakdown& plan,
              const Breakdown& rival) {
  const auto others = parts_of(rival);
  auto other = others.begin();
  for (const auto& part : parts_of(plan)) add_row(table, part.name, part.value, (other++)->value);
  add_row(table, whole, plan.total(), rival.total());
}

/// `b` less `a`, by the keys of `a`, which holds numbers and objects of numbers.
Json difference_json(const Json& a, const Json& b) {
  Json difference = Json::object();
  for (const auto& item : a.items()) {
    const Json& other = b.at(item.key());
    difference[item.key()] = item.value().is_object()
                                 ? difference_json(item.value(), other)
                                 : Json(other.get<double>() - item.value().get<double>());
  }
  return difference;
}

Json comparison_json(const SearchReport& report, const Rival& rival) {
  constexpr std::string_view kKeys[] = {"step_time_s",       "tokens_per_s", "mfu",
                                        "peak_memory_bytes", "step",         "memory"};
  const Json mine = plan_json(report.question, report.plans.front(), kKeys);
  const Json theirs = plan_json(rival.question, rival.plan);
  Json more = difference_json(mine, theirs);
  return {{"name", rival.name},
          {"question", identity_json(rival.question)},
          {"plan", theirs},
          {"rival_minus_this", std::move(more)}};
}

constexpr std::size_t kShownValues = 20;
constexpr double kLeast = 5e-5;  ///< changes that would be printed as nothing

std::string percent_text(double change) {
  return fmt::format("{:+.2f} %", change * 100.0);
}

const Columns<SensitivityRow>& sensitivity_columns() {
  using Row = const SensitivityRow&;
  static const Columns<SensitivityRow> kColumns{
      {"key", &SensitivityRow::key, {"value", Align::Left}},
      {"value", &SensitivityRow::value, {"now"}},
      {"evidence",
       [](Row r) {
         return r.evidence ? std::optional(std::string(to_text(*r.evidence))) : std::nullopt;
       },
       {"evidence", Align::Left, 1}},
      {"step_change", &SensitivityRow::step_change, {"step"}, percent_text},
      {"memory_change_bytes", &SensitivityRow::memory_change, {"memory"}, [](Bytes change) {
         if (change == Bytes(0)) return std::string("-");
         return (change < Bytes(0) ? "-" : "+") + to_text(Bytes(std::abs(change.value())));
       }}};
  return kColumns;
}

/// Those that move something one can see, as many as one reads.
std::vector<SensitivityRow> rows_shown(const SensitivityReport& report) {
  std::vector<SensitivityRow> shown;
  for (const SensitivityRow& row : report.rows) {
    const bool seen = std::abs(row.step_change) >= kLeast || row.memory_change != Bytes(0);
    if (seen && shown.size() < kShownValues) shown.push_back(row);
  }
  return shown;
}

}  // namespace

TextTable comparison_table(const PlanReport& plan, const Rival& rival) {
  TextTable table({{fmt::format("against {}", rival.name), Align::Left},
                   {"this plan"},
                   {"rival"},
                   {"rival - this"}});
  add_rows(table, "step time", plan.estimate.step, rival.plan.estimate.step);
  add_rows(table, "peak memory", plan.estimate.memory, rival.plan.estimate.memory);
  return table;
}

std::string comparison_line(const PlanReport& plan, const Rival& rival) {
  const PlanReport& other = rival.plan;
  const Seconds mine = plan.estimate.step.total();
  const Seconds theirs = other.estimate.step.total();
  const double share = (theirs / mine - 1.0) * 100.0;
  const std::string text = fmt::format("rival: {}, {:.1f} % {} time", short_plan(other.plan),
                                       std::abs(share), share < 0.0 ? "less" : "more");
  return share < 0.0 ? fmt::format("{}, {:.2f} x as fast", text, mine / theirs) : text;
}

std::string compare_plans(const PlanReport& plan, const Rival& rival, int columns) {
  return fmt::format("{}this: {}\n{}\n", comparison_table(plan, rival).text(columns),
                     short_plan(plan.plan), comparison_line(plan, rival));
}

std::string explained_json(const SearchReport& report, const std::optional<Rival>& rival,
                           const std::optional<SensitivityReport>& sensitivity) {
  Json json = to_json(report);
  if (rival) json["comparison"] = comparison_json(report, *rival);
  if (sensitivity) json["sensitivity"] = to_json(*sensitivity);
  return json_text(json, 2) + "\n";
}

TextTable sensitivity_table(const SensitivityReport& report) {
  return table_of(sensitivity_columns(), rows_shown(report));
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
  if (!report.refused.empty()) {
    text += fmt::format("not by themselves: {}\n", fmt::join(report.refused, ", "));
  }
  return text;
}

nlohmann::ordered_json to_json(const SensitivityReport& report) {
  return {{"factor", report.factor},
          {"values", objects_of(sensitivity_columns(), report.rows)},
          {"without_effect", report.without_effect},
          {"refused", report.refused}};
}

}  // namespace plansearch
