// SPDX-License-Identifier: Apache-2.0
#include "report/plan_fields.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "report/plan_cells.hpp"
#include "report/training.hpp"
#include "support/source_directory.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::set<std::string>;

Names keys_of(const Json& object) {
  Names names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
}

/// A definition of the schema of results.
Json schema_of(const char* definition) {
  std::ifstream file(PLANSEARCH_SOURCE_DIR "/docs/schema/result.v1.schema.json");
  return Json::parse(file).at("$defs").at(definition);
}

Names required_by(const Json& schema) {
  const auto names = schema.at("required").get<std::vector<std::string>>();
  return {names.begin(), names.end()};
}

Names names_of_fields() {
  Names names;
  for (const PlanField& field : plan_fields()) {
    if (!field.column.key.empty()) CHECK(names.insert(std::string(field.column.key)).second);
  }
  return names;
}

TEST_SUITE("unit") {
  TEST_CASE("the schema of a plan has the fields of the list, and no others") {
    const Json schema = schema_of("plan");
    Names properties = keys_of(schema.at("properties"));
    QuestionReport question;
    question.lora_rank = 1;
    for (const std::string& name : keys_of(identity_json(question))) {
      properties.erase(name);  // JSON lines say the question in every line
    }
    CHECK(properties == names_of_fields());
    CHECK(required_by(schema) == keys_of(plan_json({}, {})));
  }

  TEST_CASE("the schemas of the parts of a plan have the keys that are written") {
    CHECK(required_by(schema_of("step")) == keys_of(step_json({})));
    CHECK(required_by(schema_of("memory")) == keys_of(memory_json({})));
    CHECK(required_by(schema_of("training")) == keys_of(object_of(training_columns(), {})));
    CHECK(required_by(schema_of("peak")) == keys_of(peak_json({})));
    CHECK(required_by(schema_of("stage")) == keys_of(stages_json({{}}).front()));
    CHECK(required_by(schema_of("pass")) == keys_of(passes_json({{}}).front()));
    CHECK(required_by(schema_of("operator")) == keys_of(operators_json({{}}).front()));
    CHECK(required_by(schema_of("communication")) == keys_of(communication_json({{}}).front()));
    CHECK(required_by(schema_of("hidden_message")) == keys_of(hidden_json({{}}).front()));
    CHECK(required_by(schema_of("redistribution")) == keys_of(redistributions_json({{}}).front()));
  }

  TEST_CASE("a row has no name twice, and a collected one no relative fields") {
    Names names;
    for (const PlanField& field : plan_fields()) {
      if (field.csv && !field.csv->empty()) CHECK(names.insert(std::string(*field.csv)).second);
    }
    const Json ranked = plan_row({}, {}, RowKind::Ranked);
    const Json collected = plan_row({}, {}, RowKind::Collected);
    for (const PlanField& field : plan_fields()) {
      if (!field.csv || field.csv->empty() || field.column.key == "training") continue;
      CHECK(ranked.contains(std::string(*field.csv)));
      CHECK(collected.contains(std::string(*field.csv)) == !field.relative);
    }
    for (const Json& value : ranked) CHECK_FALSE(value.is_object());
  }

  TEST_CASE("tables have the columns of the list, each heading once") {
    for (const PlanTable table : {PlanTable::Ranking, PlanTable::Ladder, PlanTable::Comparison}) {
      Names titles;
      for (const auto& column : plan_columns(table)) {
        CHECK(titles.insert(column.title.title).second);
        CHECK(column.cell);
      }
      CHECK(titles.contains("step"));
    }
  }
}

}  // namespace
}  // namespace plansearch
