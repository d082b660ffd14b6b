// SPDX-License-Identifier: Apache-2.0
#include "report/comparison.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/json_text.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/text_table.hpp"

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
  return fmt::format("rival: {}, {:.1f} % {}", short_plan(other.plan), share < 0 ? -share : share,
                     share < 0 ? "faster" : "slower");
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

}  // namespace plansearch
