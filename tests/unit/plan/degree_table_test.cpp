// SPDX-License-Identifier: Apache-2.0
// The table of degrees against the plan it describes, the schema and the documentation of plan
// files.
#include "plansearch/degree_table.hpp"
#include "support/source_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace plansearch::degree_table_test {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(PLANSEARCH_SOURCE_DIR + ("/" + path));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_SUITE("unit") {
  TEST_CASE("every degree is a field of its own, with a name of its own") {
    std::set<std::string_view> keys{kTensorAlias.key};
    for (const DegreeRow& row : degree_table()) {
      CAPTURE(row.key);
      CHECK(keys.insert(row.key).second);
      PlanDegrees plan;
      const int changed = row.get(plan) == 1 ? 0 : 1;
      row.set(plan, changed);
      CHECK(row.get(plan) == changed);
      CHECK(plan != PlanDegrees{});
      for (const DegreeRow& other : degree_table()) {
        if (other.degree != row.degree) CHECK(other.get(plan) == other.get(PlanDegrees{}));
      }
    }
    // All fields but the number of micro-batches, which batch and degrees decide.
    PlanDegrees all;
    PinnedDegrees pinned;
    for (const DegreeRow& row : degree_table()) {
      pinned.pin(row.degree, row.kind == DegreeKind::Number ? 3 : 1);
    }
    all = with_pinned(all, pinned);
    CHECK(to_pinned(all) == pinned);
    CHECK(all.micro_batches == 1);
  }

  TEST_CASE("values are read as they are written, and only legal ones") {
    for (const DegreeRow& row : degree_table()) {
      CAPTURE(row.key);
      const int value = row.get(PlanDegrees{});
      CHECK(parse_value(row.degree, value_text(row.degree, value)) == value);
      CHECK_FALSE(parse_value(row.degree, "-1").has_value());
      CHECK_FALSE(parse_value(row.degree, "some").has_value());
    }
    CHECK(parse_value(Degree::Zero, "3") == 3);
    CHECK_FALSE(parse_value(Degree::Zero, "4").has_value());
    CHECK_FALSE(parse_value(Degree::Pipeline, "0").has_value());
    CHECK_FALSE(parse_value(Degree::Pipeline, "99999999999").has_value());
    CHECK(parse_value(Degree::Recompute, "full") == static_cast<int>(Recompute::Full));
    CHECK(parse_value(Degree::ContextKind, "ulysses") == static_cast<int>(ContextKind::Ulysses));
    CHECK(parse_value(Degree::RecomputeModules, "moe_act+layernorm") ==
          parse_value(Degree::RecomputeModules, "layernorm,moe_act"));
    CHECK(value_text(Degree::RecomputeModules, 2 + 32) == "layernorm,moe_act");
    CHECK(parse_value(Degree::Dispatcher, "AllToAll") ==
          parse_value(Degree::Dispatcher, "all_to_all"));
    CHECK(parse_value(Degree::RecomputeModules, "fewest") == kFewestModules);
    CHECK(parse_value(Degree::Dispatcher, "any") == static_cast<int>(kAnyDispatcher));
    CHECK(legal_text(Degree::Data) == "at least 1");
    CHECK(legal_text(Degree::Recompute) == "one of none, selective, full");
  }

  TEST_CASE("names: tp where it is the only tensor axis") {
    CHECK(to_text(PinnedDegrees{{Degree::TensorOut, 8}, {Degree::Recompute, 2}}) ==
          "tp 8, recompute full");
    CHECK(to_text(PinnedDegrees{{Degree::TensorIn, 2}, {Degree::TensorOut, 8}}) ==
          "tp-x 2, tp-y 8");
    CHECK(flag_of("micro_batch") == "--micro-batch");
  }

  TEST_CASE("schema and documentation of plan files know exactly these degrees") {
    const auto schema = nlohmann::json::parse(read("docs/schema/plan.v1.schema.json"));
    const auto& properties = schema["properties"]["degrees"]["properties"];
    CHECK(properties.size() == kDegreeCount + 1);
    CHECK(properties.contains(kTensorAlias.key));
    const std::string text = read("docs/plan_format.md");
    for (const DegreeRow& row : degree_table()) {
      CAPTURE(row.key);
      REQUIRE(properties.contains(row.key));
      const auto& property = properties[std::string(row.key)];
      CHECK(text.find("`" + std::string(row.key) + "`") != std::string::npos);
      if (row.kind == DegreeKind::Word) {
        // Schedules are a growing table: a string.
        if (property.contains("enum")) CHECK(property["enum"] == row.words());
        continue;
      }
      CHECK(property["type"] == (row.kind == DegreeKind::Switch ? "boolean" : "integer"));
      if (row.kind == DegreeKind::Number) CHECK(property["minimum"] == row.low);
      if (row.high < 10 && row.kind == DegreeKind::Number) CHECK(property["maximum"] == row.high);
    }
  }
}

}  // namespace
}  // namespace plansearch::degree_table_test
