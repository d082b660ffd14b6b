// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_document.hpp"

#include <doctest/doctest.h>

#include <set>

#include "answer/make_report.hpp"
#include "answer/search_answer.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/resolve_plan.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::recipes_test {
namespace {

const std::string kSmall = R"(schema: plansearch/recipes/v1
publisher: "somebody"
recipes:
  - name: one
    source: "a paper"
    date: "2024-07"
    model: "gpt2"
    hardware: "dgx-h100"
    framework: "megatron"
    gpus: 8
    batch: 64
    seq_len: 1024
    precision: bf16
    degrees: {tp: 2, pp: 2, zero: 1}
    step_time: "1.5 s"
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::vector<Recipe> read(const std::string& text) {
  const test::TemporaryDirectory directory;
  return io::read_recipes(directory.write("r.yaml", text));
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read(text));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return {};
}

TEST_SUITE("unit") {
  TEST_CASE("a recipe is a question with degrees, and where it was published") {
    const std::vector<Recipe> recipes = read(kSmall);
    REQUIRE(recipes.size() == 1);
    const Recipe& one = recipes.front();
    CHECK(one.publisher == "somebody");
    CHECK(one.date == "2024-07");
    CHECK(one.question.model == "gpt2");
    CHECK(one.question.degrees.get(Degree::TensorOut) == 2);
    CHECK(one.step_time == Seconds(1.5));
  }

  TEST_CASE("wrong files: the place, and what to write") {
    const std::string date = error_of(replaced(kSmall, "2024-07", "July"));
    CHECK(date.find("r.yaml:6:") != std::string::npos);
    CHECK(date.find("such as 2024-07") != std::string::npos);
    CHECK(error_of(replaced(kSmall, "    gpus: 8\n", "")).find("gpus") != std::string::npos);
    CHECK(error_of(replaced(kSmall, "tp: 2,", "tq: 2,")).find("tq") != std::string::npos);
    CHECK(error_of(replaced(kSmall, "1.5 s", "1.5")).find("r.yaml:15:") != std::string::npos);
    CHECK(error_of(replaced(kSmall, "{tp: 2, pp: 2, zero: 1}", "{}")).find("how it splits") !=
          std::string::npos);
    CHECK(error_of(replaced(kSmall, "bf16", "bf17")).find("bf17") != std::string::npos);
  }

  TEST_CASE("shipped recipes: at least 40, one name each, of what ships") {
    const ShippedData data = shipped_data();
    const auto names = [](const std::vector<ShippedFile>& files) {
      std::set<std::string> all;
      for (const ShippedFile& file : files) all.insert(file.name);
      return all;
    };
    const auto machines = names(data.clusters());
    const auto models = names(data.models());
    const auto frameworks = names(data.frameworks());
    std::set<std::string> seen;
    const std::vector<Recipe> recipes = data.recipes();
    CHECK(recipes.size() >= 40);
    for (const Recipe& recipe : recipes) {
      CAPTURE(recipe.name);
      CHECK(seen.insert(recipe.name).second);
      CHECK(machines.count(recipe.question.hardware) == 1);
      CHECK(models.count(recipe.question.model) == 1);
      CHECK(frameworks.count(recipe.question.framework) == 1);
      CHECK(recipe.source.find("http") == 0);
    }
  }

  TEST_CASE("a published plan is priced in the question that is asked") {
    ProblemRequest request;
    request.hardware = "dgx-h100";
    request.model = "gpt2";
    request.gpus = 8;
    request.batch = 32;
    const ResolvedQuestion asked = load_problem(request, shipped_data());
    SearchReport report;
    report.question = question_report(asked, asked.problem);
    const std::vector<Recipe> recipes = read(kSmall);
    const auto published = published_plans(recipes, asked, report);
    REQUIRE(published.size() == 1);
    CHECK(published.front().reason.empty());
    CHECK(published.front().fits);
    request.degrees = recipes.front().question.degrees;
    const ResolvedPlan given = resolve_plan({request, {}});
    const PlanEvaluator evaluator(given.problem);
    const SearchReport price = make_prediction(given.asked, evaluator, given.plan);
    CHECK(published.front().step == price.plans.front().estimate.step.total());
    report.question.gpus = 16;
    CHECK(published_plans(recipes, asked, report).empty());
    report.question.gpus = 8;
    const auto longer = read(replaced(kSmall, "seq_len: 1024", "seq_len: 512"));
    CHECK(published_plans(longer, asked, report).empty());
  }
}

}  // namespace
}  // namespace plansearch::recipes_test
