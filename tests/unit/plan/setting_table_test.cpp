// SPDX-License-Identifier: Apache-2.0
// The table of settings against the request it fills, the schema and the documents that name them.
#include "plansearch/setting_table.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "support/source_directory.hpp"

namespace plansearch::setting_table_test {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(PLANSEARCH_SOURCE_DIR + ("/" + path));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A text that the row takes.
std::string example(const SettingRow& row) {
  switch (row.kind) {
    case SettingKind::Count:
      return "3";
    case SettingKind::Share:
      return "0.25";
    case SettingKind::Word:
    case SettingKind::Format:
      return words_of(row).back();
    case SettingKind::Name:
    case SettingKind::Text:
      return "some";
  }
  return {};
}

TEST_SUITE("unit") {
  TEST_CASE("every setting is a field of its own, with names of its own") {
    std::set<std::string_view> keys;
    std::set<std::string> flags;
    for (const SettingRow& row : setting_table()) {
      CAPTURE(row.key);
      CHECK(keys.insert(row.key).second);
      CHECK(flags.insert(flag_of(row)).second);
      CHECK(find_setting(row.key) == &row);
      ProblemRequest request;
      CHECK_FALSE(row.get(request).has_value());
      row.set(request, example(row));
      CHECK(row.get(request) == example(row));
      for (const SettingRow& other : setting_table()) {
        if (other.setting != row.setting) CHECK_FALSE(other.get(request).has_value());
      }
    }
    CHECK(find_setting("colour") == nullptr);
    CHECK(flag_of(row_of(Setting::Hardware)) == "--hw");
    CHECK(flag_of(row_of(Setting::SequenceLength)) == "--seq-len");
  }

  TEST_CASE("values are checked before they are taken") {
    for (const SettingRow& row : setting_table()) {
      CAPTURE(row.key);
      CHECK(setting_problem(row, example(row)).empty());
      CHECK_FALSE(setting_problem(row, "").empty());
    }
    const auto problem = [](Setting setting, std::string_view text) {
      return setting_problem(row_of(setting), text);
    };
    CHECK(problem(Setting::Batch, "0") == "0 is not at least 1");
    CHECK(problem(Setting::LoraRank, "65537") == "65537 is not from 1 to 65536");
    CHECK(problem(Setting::Batch, "8kB") == "'8kB' is not a whole number");
    CHECK(problem(Setting::Batch, "8k").empty());
    CHECK(problem(Setting::MemoryRisk, "1") ==
          "'1' is not a probability between 0 and 1, such as 0.25");
    CHECK(problem(Setting::MainGradients, "fp31").find("did you mean fp3") != std::string::npos);
  }

  TEST_CASE("a plan fills what the question leaves open, and nothing else") {
    ProblemRequest asked, plan;
    asked.overlap = "none";
    asked.nodes = 4;
    asked.target = "fsdp";
    asked.degrees.pin(Degree::TensorIn, 2);
    plan.overlap = "all";
    plan.kernels = "flash2";
    plan.gpus = 8;
    plan.framework = "megatron";
    plan.hardware = "selene";
    plan.content_hashes = {{"hardware", "1"}, {"model", "2"}};
    plan.degrees = {{Degree::TensorOut, 4}, {Degree::Pipeline, 2}};
    const ProblemRequest both = completed(asked, plan);
    CHECK(both.overlap == "none");
    CHECK(both.kernels == "flash2");
    CHECK_FALSE(both.gpus.has_value());
    CHECK(both.framework.empty());
    CHECK(both.content_hashes == decltype(both.content_hashes){{"hardware", "1"}});
    CHECK(both.degrees == PinnedDegrees{{Degree::TensorIn, 2}, {Degree::Pipeline, 2}});
    CHECK(both.origin("overlap") == "flag");
    CHECK(both.origin("kernels") == "plan");
  }

  TEST_CASE("schema and documents know exactly these settings") {
    const auto schema = nlohmann::json::parse(read("docs/schema/plan.v1.schema.json"));
    const auto& properties = schema["properties"];
    const std::string format = read("docs/plan_format.md");
    for (const SettingRow& row : setting_table()) {
      CAPTURE(row.key);
      const bool written = row.effect != SettingEffect::Summary;
      const std::string key(row.key);
      CHECK(properties.contains(key) == written);
      if (written) CHECK(format.find("`" + key + "`") != std::string::npos);
      if (!words_of(row).empty()) CHECK(properties[key]["enum"] == words_of(row));
    }
  }
}

}  // namespace
}  // namespace plansearch::setting_table_test
