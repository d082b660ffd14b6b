// SPDX-License-Identifier: Apache-2.0
#include "studies/reproduce/reproduce.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/names.hpp"
#include "plansearch/error.hpp"
#include "report/csv_text.hpp"
#include "report/json_text.hpp"
#include "report/text_table.hpp"

namespace plansearch {

// Each is made in a file of its own.
std::vector<ReproducedRow> alpa_rows(const StudyContext& context);
std::vector<ReproducedRow> axonn_rows(const StudyContext& context);
std::vector<ReproducedRow> hosoki_planner_rows(const StudyContext& context);
std::vector<ReproducedRow> hosoki_pass_rows(const StudyContext& context);
std::vector<ReproducedRow> primepar_rows(const StudyContext& context);
std::vector<ReproducedRow> primepar_nodes_rows(const StudyContext& context);
std::vector<ReproducedRow> tensor3d_rows(const StudyContext& context);

namespace {

using Json = nlohmann::ordered_json;

/// The rows of one seed.
struct Answer {
  std::string_view seed;
  std::vector<ReproducedRow> rows;
};

Json number(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(std::string_view seed, const ReproducedRow& row) {
  const auto within = row.within();
  return {{"seed", std::string(seed)},
          {"check", row.check},
          {"unit", row.unit},
          {"published", number(row.published)},
          {"predicted", number(row.predicted)},
          {"low", number(row.low)},
          {"high", number(row.high)},
          {"within", within ? Json(*within) : Json(nullptr)},
          {"source", row.source}};
}

Json to_json(const std::vector<Answer>& answers) {
  Json document{{"schema", "plansearch/reproduce/v1"}};
  document["rows"] = Json::array();
  for (const Answer& answer : answers) {
    for (const ReproducedRow& row : answer.rows)
      document["rows"].push_back(to_json(answer.seed, row));
  }
  return document;
}

std::string shown(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

std::string verdict(const ReproducedRow& row) {
  const auto within = row.within();
  return !within ? "" : *within ? "yes" : "NO";
}

/// "3 .. 5", "at least 5", "at most 1".
std::string band(const ReproducedRow& row) {
  if (row.low && row.high && *row.low == *row.high) return shown(row.low);
  if (row.low && row.high) return fmt::format("{} .. {}", shown(row.low), shown(row.high));
  if (row.low) return fmt::format("at least {}", shown(row.low));
  return row.high ? fmt::format("at most {}", shown(row.high)) : "";
}

std::string table(const Answer& answer, std::string_view summary, int columns) {
  TextTable text({{"check", Align::Left},
                  {"unit", Align::Left},
                  {"published"},
                  {"predicted"},
                  {"band"},
                  {"within", Align::Left},
                  {"source", Align::Left, 1}});
  std::size_t checked = 0;
  std::size_t held = 0;
  for (const ReproducedRow& row : answer.rows) {
    text.add_row({row.check, row.unit, shown(row.published), shown(row.predicted), band(row),
                  verdict(row), row.source});
    const auto within = row.within();
    checked += within ? 1 : 0;
    held += within.value_or(false) ? 1 : 0;
  }
  return fmt::format("{}: {}\n\n{}\n{} of {} checked figures are within their bands\n", answer.seed,
                     summary, text.text(columns), held, checked);
}

std::string csv(const std::vector<Answer>& answers) {
  CsvLine header;
  for (const char* name :
       {"seed", "check", "unit", "published", "predicted", "low", "high", "within", "source"}) {
    header.add(name);
  }
  std::string text = header.text();
  for (const Answer& answer : answers) {
    for (const ReproducedRow& row : answer.rows) {
      CsvLine line;
      for (const Json& value : to_json(answer.seed, row)) {
        if (value.is_string()) line.add(value.get<std::string>());
        if (value.is_null()) line.add("");
        if (value.is_boolean()) line.add(value.get<bool>() ? "1" : "0");
        if (value.is_number()) line.add(json_text(value));
      }
      text += line.text();
    }
  }
  return text;
}

}  // namespace

std::optional<bool> ReproducedRow::within() const {
  if (!low && !high) return std::nullopt;
  return predicted && (!low || *predicted >= *low) && (!high || *predicted <= *high);
}

const std::vector<ReproducedSeed>& reproduced_seeds() {
  static const std::vector<ReproducedSeed> kSeeds{
      {"alpa", "Alpa (OSDI'22) and Megatron on its machine, 64 V100 on p3.16xlarge and p3.2xlarge",
       alpa_rows},
      {"axonn", "AxoNN's grids: its communication model and its GPT runs on Perlmutter",
       axonn_rows},
      {"hosoki", "the communication-timing pass (Hosoki et al.) on fixed plans of GPT-2 XL",
       hosoki_pass_rows},
      {"hosoki-planner",
       "plans on true costs beside Alpa's on GPT-2 XL, and operators of its layer",
       hosoki_planner_rows},
      {"primepar", "PrimePar (ASPLOS'24): operators in steps beside Megatron, 4 and 8 V100",
       primepar_rows},
      {"primepar-nodes", "PrimePar: the same on 16 and 32 V100, and with pipelines",
       primepar_nodes_rows},
      {"tensor3d", "the best grid of a tensor group on a flat network", tensor3d_rows},
  };
  return kSeeds;
}

std::string reproduce(std::string_view seed, const StudyContext& context, Format format,
                      int columns) {
  std::vector<Answer> answers;
  std::string text;
  std::vector<std::string> names;
  for (const ReproducedSeed& row : reproduced_seeds()) {
    names.emplace_back(row.name);
    if (!seed.empty() && row.name != seed) continue;
    answers.push_back({row.name, row.rows(context)});
    if (!text.empty()) text += "\n";
    text += wrapped(table(answers.back(), row.summary, columns), columns);
  }
  if (answers.empty()) {
    throw InputError({}, fmt::format("'{}' is not a paper that can be reproduced", seed),
                     fmt::format("one of {}", fmt::join(names, ", ")));
  }
  const Json document = to_json(answers);
  require_finite(document);
  switch (format) {
    case Format::Json:
      return json_text(document, 2) + "\n";
    case Format::JsonLines:
      text.clear();
      for (const Json& row : document["rows"]) text += json_text(row) + "\n";
      return text;
    case Format::Csv:
      return csv(answers);
    case Format::Table:
      break;
  }
  return text;
}

}  // namespace plansearch
