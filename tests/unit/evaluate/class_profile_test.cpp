// SPDX-License-Identifier: Apache-2.0
// Plans of one class share their profile. If a class left out something that matters, a plan would
// be priced with what another one left in the cache.
#include <doctest/doctest.h>

#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "random_plans.hpp"
#include "support/rounds.hpp"
#include "support/schedules.hpp"

namespace plansearch::class_profile_test {

TEST_SUITE("property") {
  TEST_CASE("the price of a plan does not depend on the plans priced before it") {
    for (const std::int64_t experts : {0, 8}) {
      test::ToyOptions options;
      options.experts = experts;
      const PlanEvaluator used(test::toy_problem(options));
      const auto workspace = PlanEvaluator::make_workspace();
      std::mt19937 engine(17);
      for (int i = 0; i < test::rounds(150); ++i) {
        const auto plan = test::random_plan(engine, used);
        if (!plan) continue;
        const PlanEvaluator fresh(test::toy_problem(options));
        const auto own = PlanEvaluator::make_workspace();
        INFO(test::describe(*plan));
        CHECK(used.simulate(*used.profile(*plan), *plan, *workspace) ==
              fresh.simulate(*fresh.profile(*plan), *plan, *own));
        CHECK(plan_details(used, *plan, *workspace).communication ==
              plan_details(fresh, *plan, *own).communication);
      }
    }
  }

  TEST_CASE("the price of a plan does not depend on the other sizes that share its profiles") {
    for (const std::int64_t experts : {0, 8}) {
      test::ToyOptions options;
      options.experts = experts;
      Problem problem = test::toy_problem(options);
      const auto shared = std::make_shared<const ProfileMaker>(problem);
      const auto workspace = PlanEvaluator::make_workspace();
      std::mt19937 engine(19);
      for (const int gpus : {4, 8, 16, 24, 32, 8}) {
        problem.gpus = gpus;
        problem.global_batch = 4 * std::int64_t{gpus};
        REQUIRE(shared->serves(problem));
        const PlanEvaluator used(problem, shared);
        for (int i = 0; i < test::rounds(40); ++i) {
          const auto plan = test::random_plan(engine, used);
          if (!plan) continue;
          const PlanEvaluator fresh(problem);
          const auto own = PlanEvaluator::make_workspace();
          INFO(gpus, " GPUs: ", test::describe(*plan));
          CHECK(used.simulate(*used.profile(*plan), *plan, *workspace) ==
                fresh.simulate(*fresh.profile(*plan), *plan, *own));
          CHECK(plan_details(used, *plan, *workspace).communication ==
                plan_details(fresh, *plan, *own).communication);
          for (const Rung rung : {Rung::Placement, Rung::Kernels, Rung::Passes, Rung::EndStages}) {
            const PlanBound bound = BoundLadder(used, *workspace).bound(rung, *plan);
            const PlanBound alone = BoundLadder(fresh, *own).bound(rung, *plan);
            CHECK(bound.step_time == alone.step_time);
            CHECK(bound.memory == alone.memory);
          }
        }
      }
    }
  }

  TEST_CASE("memory is known before any time is") {
    // The early answer is the memory of the bound, and never more than what the plan needs.
    for (const std::int64_t experts : {0, 8}) {
      test::ToyOptions options;
      options.experts = experts;
      const PlanEvaluator evaluator(test::toy_problem(options));
      const auto workspace = PlanEvaluator::make_workspace();
      std::mt19937 engine(23);
      for (int i = 0; i < test::rounds(150); ++i) {
        const auto plan = test::random_plan(engine, evaluator);
        if (!plan) continue;
        INFO(test::describe(*plan));
        const Bytes early = BoundLadder(evaluator, *workspace).bound(Rung::EndStages, *plan).memory;
        const auto profile = evaluator.profile(*plan);
        CHECK(early == BoundLadder(evaluator, *workspace).bound(*profile, *plan).memory);
        CHECK(early <= evaluator.estimate(*profile, *plan, *workspace).memory.total());
        const Seconds kernels =
            BoundLadder(evaluator, *workspace).bound(Rung::Passes, *plan).step_time;
        CHECK(kernels <= BoundLadder(evaluator, *workspace).bound(*profile, *plan).step_time);
        CHECK(kernels > Seconds(0));
      }
    }
  }

  TEST_CASE("a class spans many plans") {
    // Otherwise the property above would hold for a cache that never shares.
    const PlanEvaluator evaluator(test::toy_problem());
    PlanDegrees plan;
    plan.tensor_out = 2;
    plan.data = 8;
    plan.micro_batches = 4;
    const auto profile = evaluator.profile(plan);
    plan.data = 4;
    plan.pipeline = 2;
    plan.micro_batches = 8;
    plan.zero = ZeroStage::Optimizer;
    CHECK(evaluator.profile(plan) != nullptr);
    plan.data = 2;
    plan.pipeline = 4;
    plan.micro_batches = 16;
    plan.zero = ZeroStage::None;
    PlanDegrees chunked = plan;
    chunked.chunks = 2;
    chunked.schedule = test::kInterleaved;
    CHECK(evaluator.profile(plan) == evaluator.profile(chunked));
    chunked.micro_batches = 8;
    chunked.data = 4;
    chunked.pipeline = 2;
    CHECK(evaluator.profile(plan) == evaluator.profile(chunked));
    plan.tensor_out = 4;
    CHECK(evaluator.profile(plan) != evaluator.profile(chunked));
    CHECK(evaluator.profile(plan) != profile);
  }
}

}  // namespace plansearch::class_profile_test
