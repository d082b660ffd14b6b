// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include "plansearch/evaluator.hpp"
#include "search/strategies/partition/group_degrees.hpp"
#include "search/strategies/partition/partition_planner.hpp"
#include "support/tensor_group.hpp"
#include "support/toy_problem.hpp"
#include "support/uniform_plan.hpp"

namespace plansearch::least_step_test {
namespace {

/// Tensor groups of two ranks in a pipeline.
PlanDegrees pipelines(const Problem& problem, int tensor, int stages, int micro_batch) {
  PlanDegrees degrees = test::tensor_groups(problem, tensor * stages, micro_batch);
  degrees.tensor_out = tensor;
  degrees.pipeline = stages;
  return degrees;
}

TEST_SUITE("unit") {
  TEST_CASE("least step: stages before a group run once before and once behind it") {
    // Eight layers of 1 s, the embedding 0.5 s, the head 2 s; 16 GPUs, 32 sequences.
    const Problem problem = test::toy_problem();
    const std::size_t layer = test::layer_block(*problem.network);
    std::vector<Seconds> kernels(problem.network->blocks.size());
    kernels[problem.network->order.front().block] = Seconds(0.5);
    kernels[problem.network->order.back().block] = Seconds(2.0);
    kernels[layer] = Seconds(1.0);
    const auto least = [&](const PlanDegrees& degrees) {
      return least_step(kernels, test::uniform_plan(problem, degrees)).value();
    };
    // One stage: 10.5 s for each of four micro-batches.
    PlanDegrees degrees = pipelines(problem, 2, 1, 1);
    REQUIRE(degrees.micro_batches == 4);
    CHECK(least(degrees) == doctest::Approx(42.0));
    // 4.5 s and 6 s: eight of them in the last stage, after the first has run one.
    degrees = pipelines(problem, 2, 2, 1);
    REQUIRE(degrees.micro_batches == 8);
    CHECK(least(degrees) == doctest::Approx(4.5 + 8 * 6.0));
    // A weight gradient may wait: the mean of both stages.
    degrees.schedule = *find_schedule("zb-h1");
    CHECK(least(degrees) == doctest::Approx(8 * 10.5 / 2));
    // Two chunks of a stage alternate.
    degrees.schedule = *find_schedule("interleaved");
    degrees.chunks = 2;
    CHECK(least(degrees) == doctest::Approx(8 * 10.5 / 2));
  }

  TEST_CASE("least step: below the step of every choice that a planner makes") {
    const Problem problem = test::squares_problem();
    const PlanEvaluator evaluator(problem);
    int compared = 0;
    for (const int stages : {1, 2}) {
      for (const int tensor : {2, 4}) {
        for (const Recompute level : {Recompute::None, Recompute::Full}) {
          PlanDegrees degrees = pipelines(problem, tensor, stages, 2);
          degrees.recompute = level;
          const PartitionPlanner planner({problem, degrees});
          const std::vector<Seconds> kernels = planner.bound(level).kernels;
          for (const Seconds block : kernels) CHECK(block > Seconds(0));  // embedding and head too
          const Seconds least = least_step(kernels, test::uniform_plan(problem, degrees));
          for (const Rings rings : {Rings::Hidden, Rings::Exposed}) {
            const auto choice = planner.best(level, rings, 0.0);
            REQUIRE(choice.has_value());
            const auto plan = placed_plan(problem, degrees, choice->placements);
            REQUIRE(std::holds_alternative<ParallelPlan>(plan));
            const Evaluation priced = evaluator.evaluate(std::get<ParallelPlan>(plan));
            REQUIRE(std::holds_alternative<Estimate>(priced));
            CHECK(least < std::get<Estimate>(priced).step.total());
            ++compared;
          }
        }
      }
    }
    CHECK(compared == 16);
  }
}

}  // namespace
}  // namespace plansearch::least_step_test
