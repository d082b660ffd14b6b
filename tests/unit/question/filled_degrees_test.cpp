// SPDX-License-Identifier: Apache-2.0
// What a plan file leaves open is among the settings of the answer, with who said it instead.
#include "question/resolve_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "unit/io/temporary_directory.hpp"

namespace plansearch::filled_degrees_test {
namespace {

const std::string kHead =
    "schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: t5-3.9b\nframework: nnscaler\n"
    "batch: 16\n";

/// The settings that are no settings of a question: "dp=2 (gpus)", in order.
std::vector<std::string> filled(const std::string& text, int gpus = 16) {
  const test::TemporaryDirectory directory;
  ProblemRequest asked;
  asked.gpus = gpus;
  const ResolvedPlan given =
      resolve_plan(complete_from_plan(asked, directory.write("plan.yaml", kHead + text)));
  std::vector<std::string> words;
  bool behind = false;  // the site is the last of the settings
  for (const SettingReport& setting : given.asked.settings) {
    if (behind) words.push_back(setting.key + "=" + setting.value + " (" + setting.origin + ")");
    behind = behind || setting.key == "site";
  }
  return words;
}

using Words = std::vector<std::string>;

TEST_SUITE("unit") {
  TEST_CASE("degrees that a file leaves open: from the GPUs, the framework or a default") {
    CHECK(filled("degrees: {pp: 4, tp: 2}\n") ==
          Words{"dp=2 (gpus)", "zero=0 (framework)", "sp=0 (framework)", "micro_batch=1 (default)",
                "recompute=none (framework)", "schedule=1f1b (framework)"});
    CHECK(filled("degrees: {dp: 16, zero: 1, micro_batch: 1, recompute: full}\n") ==
          Words{"pp=1 (default)", "tp=1 (default)"});
    CHECK(filled("degrees: {dp: 4, pp: 2, tp: 2, zero: 1, sp: false, micro_batch: 1, recompute: "
                 "full, schedule: 1f1b}\n")
              .empty());
  }

  TEST_CASE("degrees of stages, by stage where they differ") {
    CHECK(filled("order: {micro_batches: 8}\nstages:\n  - {layers: 20, tp: 4, recompute: full}\n"
                 "  - {layers: 28, dp: 2, tp: 2, zero: 1}\n",
                 8) == Words{"dp=1/2 (default)", "zero=0/1 (framework)", "sp=0 (framework)",
                             "recompute=full/none (framework)", "schedule=1f1b (framework)"});
  }

  TEST_CASE("orders that are found, and operators that nothing places") {
    const std::string ends = "assign: [{of: [\"*embedding*\", head], devices: all}]\n";
    const std::string degrees =
        "degrees: {dp: 2, pp: 4, tp: 2, zero: 0, sp: false, micro_batch: 1, recompute: full}\n";
    CHECK(filled(degrees + ends) == Words{"order=shortest window (default)"});
    CHECK(filled(degrees + ends + "order: {window: true}\n").empty());
    CHECK(filled("degrees: {dp: 8, pp: 1, tp: 2, zero: 0, sp: false, micro_batch: 1, recompute: "
                 "full}\nplacements:\n  operators:\n    - {operators: [mlp_in], cut: {}}\n") ==
          Words{"other_operators=by role (default)"});
  }

  TEST_CASE("a plan of flags alone fills in nothing that it would have to say") {
    ProblemRequest asked;
    asked.hardware = "dgx-2-v100";
    asked.model = "t5-3.9b";
    asked.gpus = 8;
    const ResolvedPlan given = resolve_plan({asked, {}});
    CHECK(std::none_of(given.asked.settings.begin(), given.asked.settings.end(),
                       [](const SettingReport& setting) { return setting.key == "dp"; }));
  }
}

}  // namespace
}  // namespace plansearch::filled_degrees_test
