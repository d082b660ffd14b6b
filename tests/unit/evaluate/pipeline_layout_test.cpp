// SPDX-License-Identifier: Apache-2.0
// Which blocks a device holds, read off the parameters of its stage.
#include <doctest/doctest.h>

#include "plansearch/evaluator.hpp"
#include "support/schedules.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::pipeline_layout_test {
namespace {

constexpr double kHidden = 1024;
constexpr double kLayer = 12 * kHidden * kHidden + 4 * kHidden;
constexpr double kTable = 51200 * kHidden;

/// Parameters of every device, in bf16 elements.
std::vector<double> parameters_of(std::int64_t layers, int pipeline, int chunks, bool tied) {
  test::ToyOptions options;
  options.layers = layers;
  options.tied = tied;
  const PlanEvaluator evaluator(test::toy_problem(options));
  PlanDegrees plan;
  plan.pipeline = pipeline;
  plan.chunks = chunks;
  plan.schedule = chunks > 1 ? test::kInterleaved : kDefaultSchedule;
  plan.data = 16 / pipeline;
  plan.micro_batches = 32 / plan.data;
  REQUIRE_FALSE(evaluator.obstacle(plan));
  const auto workspace = PlanEvaluator::make_workspace();
  const auto profile = evaluator.profile(plan);
  std::vector<double> counts;
  for (int stage = 0; stage < pipeline; ++stage) {
    counts.push_back(
        evaluator.stage_memory(*profile, plan, stage, *workspace).memory.parameters.value() / 2);
  }
  return counts;
}

TEST_SUITE("unit") {
  TEST_CASE("stages hold layers / p each, the ends embedding and head as well") {
    const auto counts = parameters_of(8, 4, 1, false);
    CHECK(counts == std::vector<double>{2 * kLayer + kTable, 2 * kLayer, 2 * kLayer,
                                        2 * kLayer + kTable + 2 * kHidden});
  }

  TEST_CASE("chunks go round: with 2 a device holds layers / (2 p) twice") {
    CHECK(parameters_of(8, 2, 2, false) ==
          std::vector<double>{4 * kLayer + kTable, 4 * kLayer + kTable + 2 * kHidden});
    CHECK(parameters_of(16, 4, 4, false)[1] == 4 * kLayer);
  }

  TEST_CASE("one stage holds a tied table once, two stages hold it both") {
    CHECK(parameters_of(8, 1, 1, true)[0] == 8 * kLayer + kTable + 2 * kHidden);
    CHECK(parameters_of(8, 2, 1, true) == parameters_of(8, 2, 1, false));
  }
}

}  // namespace
}  // namespace plansearch::pipeline_layout_test
