// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "report/columns.hpp"
#include "report/comparison.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/text_table.hpp"
#include "report/training.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Tokens that costs are given for where the question names none.
constexpr double kUnitTokens = 1e9;

using Entry = const ComparedRow&;

/// A setting that the user chose; empty where it was left open.
Column<ComparedRow> setting_column(const char* title, std::string_view key) {
  const auto value = [key](Entry r) {
    const auto found = std::ranges::find(r.question.settings, key, &SettingReport::key);
    return found == r.question.settings.end() ? std::string() : found->value;
  };
  return {"", value, {title, Align::Left}};
}

/// Traits in which questions may differ.
const Columns<ComparedRow>& traits() {
  static const Columns<ComparedRow> kTraits{
      {"", &ComparedRow::name, {"plan", Align::Left}},
      {"", [](Entry r) { return r.question.hardware; }, {"hardware", Align::Left}},
      {"", [](Entry r) { return r.question.model; }, {"model", Align::Left}},
      {"", [](Entry r) { return framework_text(r.question); }, {"framework", Align::Left}},
      {"", [](Entry r) { return r.question.precision; }, {"precision", Align::Left}},
      setting_column("task", "task"),
      setting_column("other weights", "base_precision"),
      setting_column("main gradients", "main_grads"),
      {"", [](Entry r) { return r.question.seq_len; }, {"sequence"}},
      {"", [](Entry r) { return r.question.global_batch; }, {"batch"}},
      {"", [](Entry r) { return grouped(r.question.gpus); }, {"GPUs"}},
      {"", &ComparedRow::schedule, {"schedule", Align::Left}},
      {"", &ComparedRow::set, {"set", Align::Left}}};
  return kTraits;
}

bool differs(const Column<ComparedRow>& trait, const std::vector<ComparedRow>& rows) {
  return std::ranges::any_of(
      rows, [&](Entry row) { return trait.cell(row).text != trait.cell(rows.front()).text; });
}

QuestionReport with_tokens(QuestionReport question) {
  if (!question.tokens) question.tokens = kUnitTokens;
  return question;
}

std::optional<TrainingCost> cost_of(Entry row) {
  return row.plan ? training_cost(with_tokens(row.question), *row.plan) : std::nullopt;
}

/// Columns of results; "-" where a row has no plan.
Columns<ComparedRow> result_columns(const ComparisonReport& report) {
  Columns<ComparedRow> columns;
  append<ComparedRow, ShownPlan>(columns, plan_columns(PlanTable::Comparison),
                                 [](Entry r) -> std::optional<ShownPlan> {
                                   if (!r.plan) return std::nullopt;
                                   return ShownPlan{r.question, *r.plan, r.fits ? "" : " (!)"};
                                 });
  const auto result = [](const TextColumn& title, std::function<Cell(Entry)> cell) {
    const auto if_any = [cell](Entry r) { return r.plan ? cell(r) : Cell("-"); };
    return Column<ComparedRow>("", if_any, title);
  };
  // The effect of a changed value on the speed is what such a comparison is for.
  const bool what_if = differs(traits().back(), report.rows);
  const auto mfu =
      std::ranges::find_if(columns, [](const auto& column) { return column.title.title == "MFU"; });
  columns.insert(
      mfu,
      {result({"speed"}, [](Entry r) { return r.speed ? fmt::format("{:.2f}", *r.speed) : "-"; }),
       result({"80 %", Align::Right, what_if ? 0 : 3}, [](Entry r) {
         return r.speed_p10 ? fmt::format("{:.2f} - {:.2f}", *r.speed_p10, *r.speed_p90) : "";
       })});
  if (report.rows.front().question.tokens) {
    append<ComparedRow, TrainingCost>(columns, training_columns(), cost_of);
  } else {
    columns.push_back(result({"GPU-hours/1B tokens", Align::Right, 1},
                             [](Entry r) { return gpu_hours_cell(cost_of(r)->gpu_time); }));
    columns.push_back(result({"price/1B tokens", Align::Right, 1},
                             [](Entry r) { return price_cell(cost_of(r)->price_usd); }));
  }
  const auto best = [](Entry r) { return r.plan ? short_plan(r.plan->plan) : r.why_none; };
  columns.push_back({"", best, {"best plan", Align::Left}});
  return columns;
}

TextTable table_of(const ComparisonReport& report) {
  const auto number = [first = report.rows.data()](Entry row) {
    return fmt::format("{}{}{}", row.tie_with_first ? "~" : "", &row - first + 1,
                       row.measured ? "" : "*");
  };
  Columns<ComparedRow> columns{{"", number, {"#"}}};
  for (const Column<ComparedRow>& trait : traits()) {
    if (differs(trait, report.rows)) columns.push_back(trait);
  }
  for (Column<ComparedRow>& result : result_columns(report)) columns.push_back(std::move(result));
  return table_of(columns, report.rows);
}

std::string legend(const ComparisonReport& report, const TextTable& table, int columns) {
  std::string text = "speed: tokens per second over those of row 1";
  const auto any = [&](auto holds) { return std::ranges::any_of(report.rows, holds); };
  if (any([](const ComparedRow& row) { return row.tie_with_first; })) {
    text = "~ too close to row 1 to call\n" + text;
  }
  if (any([](const ComparedRow& row) { return !row.measured; })) {
    text = "* no number of the profile is measured\n" + text;
  }
  if (table.shows("80 %", columns)) {
    text += "; 80 %: of outcomes of speed, errors that both rows share left out";
  }
  if (table.shows("p10 - p90", columns)) text += "; p10 - p90: 80 % of outcomes";
  if (any([](const ComparedRow& row) { return !row.fits; })) text += "; (!): does not fit";
  text += "\n";
  const auto tokens = report.rows.front().question.tokens;
  if (!tokens) return text;
  text += fmt::format("{} tokens", count_text(*tokens));
  if (table.shows("energy", columns)) {
    text += "; energy: the accelerators at their rated power, without hosts, network and cooling";
  }
  if (table.shows("price", columns)) text += "; price: that of the profiles";
  return text + "\n";
}

std::string headline(const std::vector<ComparedRow>& rows) {
  std::vector<std::string> common;
  for (const Column<ComparedRow>& trait : traits()) {
    const std::string text = trait.cell(rows.front()).text;
    if (differs(trait, rows) || text.empty()) continue;
    const auto& [title, align, dispensable] = trait.title;
    common.push_back(align == Align::Left ? text : fmt::format("{} {}", title, text));
  }
  return fmt::format("comparing {}{}\n", rows.size() == 1 ? "one question" : "best plans",
                     common.empty() ? "" : fmt::format(": {}", fmt::join(common, ", ")));
}

/// Sizes that machines do not have, first.
std::string beyond_lines(const std::vector<ComparedRow>& rows) {
  std::set<std::string> lines;
  for (const ComparedRow& row : rows) lines.insert(beyond_line(row.question));
  return fmt::format("{}", fmt::join(lines, ""));
}

std::string table_text(const ComparisonReport& report, int columns) {
  const TextTable table = table_of(report);
  std::string text = beyond_lines(report.rows) + headline(report.rows) + "\n" +
                     table.text(columns) + legend(report, table, columns);
  int number = 0;
  for (const ComparedRow& row : report.rows) {
    ++number;
    if (!row.advice.empty()) text += fmt::format("hint: row {}: {}\n", number, row.advice);
  }
  return wrapped(text + "\n" + evidence_text(report.evidence) + "\n", columns);
}

/// Fields that set a row beside the first one.
Json relation_json(const ComparedRow& row) {
  Json json = Json::object();
  json["speed"] = or_null(row.speed);
  json["speed_p10"] = or_null(row.speed_p10);
  json["speed_p90"] = or_null(row.speed_p90);
  json["tie_with_first"] = row.tie_with_first;
  json["gpu_s_per_token"] = nullptr;
  json["usd_per_token"] = nullptr;
  if (!row.plan) return json;
  const double gpu_time = row.question.gpus / row.plan->tokens_per_s;
  json["gpu_s_per_token"] = gpu_time;
  if (const auto price = row.question.gpu_price_usd_per_hour) {
    json["usd_per_token"] = gpu_time / 3600.0 * *price;
  }
  return json;
}

Json row_json(const ComparedRow& row) {
  Json json{{"name", or_null(row.name)}};
  json["question"] = identity_json(row.question);
  json["question"]["schedule"] = or_null(row.schedule);
  json["question"]["set"] = or_null(row.set);
  json["question"]["framework_validation"] = or_null(row.question.framework_validation);
  json.update(relation_json(row));
  json["fits"] = row.plan ? Json(row.fits) : Json(nullptr);
  json["reason"] = row.plan ? Json(nullptr) : Json(row.why_none);
  json["advice"] = or_null(row.advice);
  json["plan"] = row.plan ? plan_json(row.question, *row.plan) : Json(nullptr);
  return json;
}

/// Flat; a row without a plan has empty results.
Json csv_row(const ComparedRow& row) {
  Json line{{"name", row.name}};
  line.update(plan_row(row.question, row.plan.value_or(PlanReport{}), RowKind::Collected));
  line.update(identity_json(row.question));  // a row without a plan has its own GPUs and batch
  line["set"] = row.set;
  line.update(relation_json(row));
  line["fits"] = row.fits;
  line["reason"] = row.why_none;
  if (row.plan) return line;
  for (auto& [key, value] : line.items()) {
    if (!identity_json(row.question).contains(key) && key != "reason") value = nullptr;
  }
  return line;
}

}  // namespace

std::string render_comparison(const ComparisonReport& report, Format format, int columns) {
  Answer answer{{{"schema", "plansearch/compare/v1"},
                 {"rows", Json::array()},
                 {"evidence", report.evidence}}};
  for (const ComparedRow& row : report.rows) {
    require_finite(answer.document["rows"].emplace_back(row_json(row)));
    if (format == Format::Csv) answer.csv.push_back(csv_row(row));
  }
  return render_answer(answer, format, [&] { return table_text(report, columns); });
}

}  // namespace plansearch
