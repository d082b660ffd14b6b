// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "report/columns.hpp"
#include "report/compared.hpp"
#include "report/evidence_text.hpp"
#include "report/json_report.hpp"
#include "report/json_text.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_row.hpp"
#include "report/text_table.hpp"
#include "report/training.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Tokens that costs are given for where the question names none.
constexpr double kUnitTokens = 1e9;

/// A trait in which questions may differ.
struct Trait {
  TextColumn column;
  std::string (*text)(const ComparedRow& row);
};

const std::vector<Trait>& traits() {
  static const std::vector<Trait> kTraits{
      {{"plan", Align::Left}, [](const ComparedRow& r) { return r.name; }},
      {{"hardware", Align::Left}, [](const ComparedRow& r) { return r.question.hardware; }},
      {{"model", Align::Left}, [](const ComparedRow& r) { return r.question.model; }},
      {{"framework", Align::Left}, [](const ComparedRow& r) { return framework_text(r.question); }},
      {{"precision", Align::Left}, [](const ComparedRow& r) { return r.question.precision; }},
      {{"sequence"}, [](const ComparedRow& r) { return fmt::format("{}", r.question.seq_len); }},
      {{"batch"}, [](const ComparedRow& r) { return fmt::format("{}", r.question.global_batch); }},
      {{"GPUs"}, [](const ComparedRow& r) { return grouped(r.question.gpus); }},
      {{"schedule", Align::Left}, [](const ComparedRow& r) { return r.schedule; }}};
  return kTraits;
}

bool differs(const Trait& trait, const std::vector<ComparedRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [&](const ComparedRow& row) {
    return trait.text(row) != trait.text(rows.front());
  });
}

QuestionReport with_tokens(QuestionReport question) {
  if (!question.tokens) question.tokens = kUnitTokens;
  return question;
}

/// A column of results, empty cells where a row has no plan.
struct Result {
  TextColumn column;
  std::function<Cell(const ComparedRow& row, const PlanReport& plan)> cell;
};

std::string speed_text(const ComparedRow& row) {
  return row.speed ? fmt::format("{:.2f}", *row.speed) : "-";
}

std::vector<Result> cost_columns(const ComparisonReport& report) {
  const auto cost = [](const ComparedRow& row, const PlanReport& plan) {
    return *training_cost(with_tokens(row.question), plan);
  };
  std::vector<Result> columns;
  if (report.rows.front().question.tokens) {
    for (const TextColumn& column : training_columns()) {
      const std::size_t index = columns.size();
      columns.push_back({column, [cost, index](const ComparedRow& r, const PlanReport& p) {
                           return training_cells(cost(r, p)).at(index);
                         }});
    }
    return columns;
  }
  columns.push_back(
      {{"GPU-hours/1G tokens", Align::Right, 1}, [cost](const ComparedRow& r, const PlanReport& p) {
         return gpu_hours_cell(cost(r, p).gpu_time);
       }});
  columns.push_back(
      {{"price/1G tokens", Align::Right, 1}, [cost](const ComparedRow& r, const PlanReport& p) {
         return price_cell(cost(r, p).price_usd);
       }});
  return columns;
}

std::vector<Result> result_columns(const ComparisonReport& report) {
  std::vector<Result> columns{
      {{"step"}, [](const ComparedRow&, const PlanReport& p) { return p.estimate.step.total(); }},
      {{"p10 - p90", Align::Right, 3},
       [](const ComparedRow&, const PlanReport& p) { return range_cell(p.p10, p.p90); }},
      {{"tokens/s", Align::Right, 5},
       [](const ComparedRow&, const PlanReport& p) { return count_cell(p.tokens_per_s); }},
      {{"speed"}, [](const ComparedRow& r, const PlanReport&) { return speed_text(r); }},
      {{"MFU", Align::Right, 2},
       [](const ComparedRow&, const PlanReport& p) { return share_text(p.mfu); }},
      {{"memory", Align::Right, 4}, [](const ComparedRow& r, const PlanReport& p) {
         return memory_of(p.estimate.memory.total(), r.question.memory_capacity) +
                (r.fits ? "" : " (!)");
       }}};
  for (Result& column : cost_columns(report)) columns.push_back(std::move(column));
  columns.push_back({{"best plan", Align::Left},
                     [](const ComparedRow&, const PlanReport& p) { return short_plan(p.plan); }});
  return columns;
}

TextTable table_of(const ComparisonReport& report) {
  std::vector<Trait> told = traits();
  std::erase_if(told, [&](const Trait& trait) { return !differs(trait, report.rows); });
  const std::vector<Result> results = result_columns(report);
  std::vector<TextColumn> headers{{"#"}};
  for (const Trait& trait : told) headers.push_back(trait.column);
  for (const Result& result : results) headers.push_back(result.column);
  TextTable table(headers);
  int number = 0;
  for (const ComparedRow& row : report.rows) {
    ++number;
    std::vector<Cell> cells{
        fmt::format("{}{}{}", row.tie_with_first ? "~" : "", number, row.measured ? "" : "*")};
    for (const Trait& trait : told) cells.push_back(trait.text(row));
    for (const Result& result : results) {
      cells.push_back(row.plan ? result.cell(row, *row.plan) : "-");
    }
    if (!row.plan) cells.back() = row.why_none;
    table.add_row(std::move(cells));
  }
  return table;
}

std::string legend(const ComparisonReport& report, const TextTable& table, int columns) {
  std::string text = "speed: tokens per second over those of row 1";
  const auto any = [&](auto holds) {
    return std::any_of(report.rows.begin(), report.rows.end(), holds);
  };
  if (any([](const ComparedRow& row) { return row.tie_with_first; })) {
    text = "~ too close to row 1 to call\n" + text;
  }
  if (any([](const ComparedRow& row) { return !row.measured; })) {
    text = "* no number of the profile is measured\n" + text;
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
  for (const Trait& trait : traits()) {
    const std::string text = trait.text(rows.front());
    if (differs(trait, rows) || text.empty()) continue;
    common.push_back(
        trait.column.align == Align::Left ? text : fmt::format("{} {}", trait.column.title, text));
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

/// What a comparison adds to a row.
Json relation_json(const ComparedRow& row) {
  Json json = Json::object();
  json["speed"] = row.speed ? Json(*row.speed) : Json(nullptr);
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
  Json json{{"name", row.name.empty() ? Json(nullptr) : Json(row.name)}};
  json["question"] = identity_json(row.question);
  json["question"]["schedule"] = row.schedule.empty() ? Json(nullptr) : Json(row.schedule);
  json["question"]["framework_validation"] = row.question.framework_validation.empty()
                                                 ? Json(nullptr)
                                                 : Json(row.question.framework_validation);
  json.update(relation_json(row));
  json["fits"] = row.plan ? Json(row.fits) : Json(nullptr);
  json["reason"] = row.plan ? Json(nullptr) : Json(row.why_none);
  json["advice"] = row.advice.empty() ? Json(nullptr) : Json(row.advice);
  json["plan"] = row.plan ? plan_json(row.question, *row.plan) : Json(nullptr);
  return json;
}

std::string csv_text(const ComparisonReport& report) {
  std::string text;
  for (const ComparedRow& row : report.rows) {
    Json line{{"name", row.name}};
    line.update(plan_row(row.question, row.plan.value_or(PlanReport{}), RowKind::Collected));
    line.update(identity_json(row.question));  // a row without a plan has its own GPUs and batch
    line.update(relation_json(row));
    line["fits"] = row.fits;
    line["reason"] = row.why_none;
    if (!row.plan) {
      for (auto& [key, value] : line.items()) {
        const bool known = identity_json(row.question).contains(key) || key == "reason";
        if (!known) value = nullptr;
      }
    }
    if (text.empty()) text = csv_header(line);
    text += csv_line(line);
  }
  return text;
}

}  // namespace

std::string render_comparison(const ComparisonReport& report, Format format, int columns) {
  for (const ComparedRow& row : report.rows) require_finite(row_json(row));
  switch (format) {
    case Format::Table:
      return table_text(report, columns);
    case Format::Csv:
      return csv_text(report);
    case Format::Json:
    case Format::JsonLines:
      break;
  }
  Json rows = Json::array();
  std::string lines;
  for (const ComparedRow& row : report.rows) {
    rows.push_back(row_json(row));
    lines += json_text(rows.back()) + "\n";
  }
  if (format == Format::JsonLines) return lines;
  const Json json{{"schema", "plansearch/compare/v1"},
                  {"rows", std::move(rows)},
                  {"evidence", report.evidence}};
  return json_text(json, 2) + "\n";
}

}  // namespace plansearch
