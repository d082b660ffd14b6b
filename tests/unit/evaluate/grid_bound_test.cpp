// SPDX-License-Identifier: Apache-2.0
// Pruning before anything is profiled: a bound above the truth would lose plans silently.
#include <doctest/doctest.h>

#include "evaluate/step/bound_ladder.hpp"
#include "random_plans.hpp"
#include "support/rounds.hpp"
#include "support/toy_class.hpp"

namespace plansearch::grid_bound_test {
namespace {

int check_grid_bounds(const Problem& problem, unsigned seed) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  BoundLadder ladder(evaluator, *workspace);
  std::mt19937 engine(seed);
  int plans = 0;
  for (int i = 0; i < test::rounds(1500); ++i) {
    const auto plan = test::random_plan(engine, evaluator);
    if (!plan) continue;
    INFO(test::describe(*plan));
    const PlanBound bound = ladder.bound(*evaluator.profile(*plan), *plan);
    const PlanBound grid = degree_bound(evaluator, *plan);
    CHECK(grid.step_time <= bound.step_time * (1.0 + 1e-9));
    CHECK(grid.memory <= bound.memory * (1.0 + 1e-9));
    CHECK(grid.step_time > Seconds(0));
    // Degrees that are open when a prefix is judged.
    PlanDegrees prefix = *plan;
    prefix.chunks = prefix.micro_batch = prefix.micro_batches = 1;
    prefix.recompute = Recompute::None;
    prefix.schedule = kDefaultSchedule;
    const PlanBound early = degree_bound(evaluator, prefix);
    CHECK(early.step_time <= grid.step_time);
    CHECK(early.memory <= grid.memory);
    ++plans;
  }
  return plans;
}

TEST_SUITE("property") {
  TEST_CASE("the bound of the grid is below the bound of the plan") {
    test::ToyOptions experts;
    experts.experts = 8;
    experts.imbalance = 1.3;
    experts.tied = false;
    unsigned seed = 11;
    for (const test::ToyOptions& options : {test::ToyOptions{}, experts}) {
      CHECK(check_grid_bounds(test::toy_problem(options), seed++) > test::rounds(200));
    }
    const auto overlapping = test::with_framework(test::toy_problem(), [](Framework& framework) {
      framework.overlap.fill({0.9, MessageWait::AtOnce, {}, 1});
    });
    CHECK(check_grid_bounds(overlapping, seed) > test::rounds(200));
  }
}

TEST_SUITE("unit") {
  TEST_CASE("states of one device are those of the whole network") {
    test::ToyOptions toy;
    toy.gpus = 1;
    const Problem problem = test::toy_problem(toy);
    const PlanEvaluator evaluator(problem);
    const auto workspace = PlanEvaluator::make_workspace();
    PlanDegrees plan;
    plan.micro_batches = 32;
    const Estimate estimate = evaluator.estimate(*evaluator.profile(plan), plan, *workspace);
    const MemoryBreakdown& memory = estimate.memory;
    // Nothing is cut: the bound has every state, and of the rest only what is always there.
    const Bytes states = memory.parameters + memory.gradients + memory.optimizer;
    const Bytes bound = degree_bound(evaluator, plan).memory;
    CHECK(bound >= states * (1.0 - 1e-9));
    CHECK(bound <= states + memory.buffers + memory.reserve);
  }

  TEST_CASE("a step takes the work over the devices, or one micro-batch through all stages") {
    const PlanEvaluator evaluator(test::toy_problem());
    PlanDegrees plan;
    plan.data = 16;
    plan.micro_batches = 2;
    const Seconds spread = degree_bound(evaluator, plan).step_time;
    // 32 sequences on 16 devices take as long as two sequences on one. As one micro-batch through
    // 8 stages, 32 sequences are cut in two and go forward and back, without gradients of weights:
    // eight times as long, less those gradients, which are no third of the work but less, as
    // attention and passes over memory have none.
    plan.data = 1;
    plan.pipeline = 8;
    plan.context = 2;
    plan.micro_batch = 32;
    plan.micro_batches = 1;
    const double longer = degree_bound(evaluator, plan).step_time / spread;
    CHECK(longer > 8.0 * 2.0 / 3.0);
    CHECK(longer < 8.0);
    plan.micro_batch = 1;
    plan.micro_batches = 32;
    CHECK(degree_bound(evaluator, plan).step_time == spread);
  }
}

}  // namespace
}  // namespace plansearch::grid_bound_test
