// SPDX-License-Identifier: Apache-2.0
#include "evaluate/step/bound_ladder.hpp"
#include "plansearch/evaluator.hpp"

#include <doctest/doctest.h>

#include "plansearch/plan_report.hpp"
#include "random_plans.hpp"
#include "support/rounds.hpp"
#include "support/schedules.hpp"

namespace plansearch::plan_evaluator_test {
namespace {

/// Every legal plan of the toy problem over a few degrees.
template <typename Visit>
void for_each_plan(const PlanEvaluator& evaluator, Visit visit) {
  const Problem& problem = evaluator.problem();
  for (const int tensor : {1, 2, 4, 8}) {
    for (const int pipeline : {1, 2, 4}) {
      for (const int chunks : {1, 2}) {
        for (const int micro_batch : {1, 2}) {
          for (const Recompute recompute :
               {Recompute::None, Recompute::Selective, Recompute::Full}) {
            PlanDegrees plan;
            plan.tensor_out = tensor;
            plan.pipeline = pipeline;
            plan.chunks = chunks;
            plan.schedule = chunks > 1 ? test::kInterleaved : kDefaultSchedule;
            plan.data = problem.gpus / tensor / pipeline;
            if (plan.data == 0) continue;
            plan.micro_batch = micro_batch;
            plan.micro_batches = static_cast<int>(problem.global_batch / plan.data / micro_batch);
            plan.recompute = recompute;
            if (plan.micro_batches > 0 && !evaluator.obstacle(plan)) visit(plan);
          }
        }
      }
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("a bound is never above the estimate or the simulation") {
    const PlanEvaluator evaluator(test::toy_problem());
    const auto workspace = PlanEvaluator::make_workspace();
    int plans = 0;
    for_each_plan(evaluator, [&](const PlanDegrees& plan) {
      const auto profile = evaluator.profile(plan);
      const PlanBound bound = BoundLadder(evaluator, *workspace).bound(*profile, plan);
      const Estimate estimate = evaluator.estimate(*profile, plan, *workspace);
      const Estimate simulated = evaluator.simulate(*profile, plan, *workspace);
      const double slack = 1.0 + 1e-9;
      CHECK(bound.step_time <= estimate.step.total() * slack);
      CHECK(bound.step_time <= simulated.step.total() * slack);
      CHECK(bound.memory <= simulated.memory.total() * slack);
      CHECK(estimate.step.total() / simulated.step.total() == doctest::Approx(1.0).epsilon(0.05));
      ++plans;
    });
    CHECK(plans > 40);
  }

  TEST_CASE("parts are not negative and memory does not depend on the method") {
    const PlanEvaluator evaluator(test::toy_problem());
    const auto workspace = PlanEvaluator::make_workspace();
    for_each_plan(evaluator, [&](const PlanDegrees& plan) {
      const auto profile = evaluator.profile(plan);
      const Estimate e = evaluator.simulate(*profile, plan, *workspace);
      CHECK(e.step.compute > Seconds(0));
      CHECK(e.step.bubble >= Seconds(0));
      CHECK(e.step.host >= Seconds(0));
      for (const Seconds part : e.step.exposed) CHECK(part >= Seconds(0));
      CHECK(e.memory == evaluator.estimate(*profile, plan, *workspace).memory);
      if (plan.recompute == Recompute::None) CHECK(e.step.recompute == Seconds(0));
      if (plan.pipeline == 1) CHECK(e.step.bubble == Seconds(0));
    });
  }

  TEST_CASE("with or without words, the same plans are refused for the same reason") {
    test::ToyOptions narrow;  // 6 heads, 3 of them for keys and values, 5 experts
    narrow.hidden = 384;
    narrow.heads = 6;
    narrow.kv_heads = 3;
    narrow.experts = 5;
    for (const test::ToyOptions& options : {test::ToyOptions{}, narrow}) {
      const PlanEvaluator evaluator(test::toy_problem(options));
      std::mt19937 engine(23);
      int refused = 0;
      for (int i = 0; i < test::rounds(1000); ++i) {
        const PlanDegrees plan = test::any_plan(engine, evaluator.problem());
        const auto quick = evaluator.obstacle(plan);
        const auto worded = evaluator.legality(plan);
        INFO(test::describe(plan));
        REQUIRE(quick.has_value() == worded.has_value());
        if (!quick) continue;
        CHECK(*quick == worded->obstacle);
        CHECK_FALSE(worded->detail.empty());
        ++refused;
      }
      CHECK(refused > test::rounds(50));
      CHECK(refused < test::rounds(1000));
    }
  }

  TEST_CASE("one device communicates nothing") {
    test::ToyOptions options;
    options.gpus = 1;
    options.global_batch = 4;
    const PlanEvaluator evaluator(test::toy_problem(options));
    PlanDegrees plan;
    plan.micro_batches = 4;
    const auto workspace = PlanEvaluator::make_workspace();
    const auto profile = evaluator.profile(plan);
    CHECK(evaluator.simulate(*profile, plan, *workspace).step.exposed_total() == Seconds(0));
    CHECK(plan_details(evaluator, plan, *workspace).communication.empty());
  }

  TEST_CASE("recompute trades time for memory") {
    const PlanEvaluator evaluator(test::toy_problem());
    const auto workspace = PlanEvaluator::make_workspace();
    PlanDegrees plan;
    plan.tensor_out = 2;
    plan.data = 8;
    plan.micro_batches = 4;
    const auto priced = [&](Recompute recompute) {
      plan.recompute = recompute;
      return evaluator.simulate(*evaluator.profile(plan), plan, *workspace);
    };
    const Estimate none = priced(Recompute::None);
    const Estimate full = priced(Recompute::Full);
    CHECK(full.step.total() > none.step.total());
    CHECK(full.memory.total() < none.memory.total());
    // Full recompute runs the forward of every layer once more: a third of the compute of the
    // layers, which the head (never repeated) dilutes.
    CHECK(full.step.recompute / none.step.compute > 0.15);
    CHECK(full.step.recompute / none.step.compute < 0.34);
  }

  TEST_CASE("ZeRO divides what it shards and nothing else") {
    const PlanEvaluator evaluator(test::toy_problem());
    const auto workspace = PlanEvaluator::make_workspace();
    PlanDegrees plan;
    plan.data = 16;
    plan.micro_batches = 2;
    const auto memory = [&](ZeroStage zero) {
      plan.zero = zero;
      return evaluator.simulate(*evaluator.profile(plan), plan, *workspace).memory;
    };
    const MemoryBreakdown none = memory(ZeroStage::None);
    const MemoryBreakdown one = memory(ZeroStage::Optimizer);
    CHECK(one.optimizer.value() == doctest::Approx(none.optimizer.value() / 16));
    CHECK(one.parameters == none.parameters);
    CHECK(one.gradients == none.gradients);
    const MemoryBreakdown three = memory(ZeroStage::Parameters);
    CHECK(three.parameters.value() == doctest::Approx(none.parameters.value() / 16));
    CHECK(three.gradients < none.gradients);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("states of mixed-precision Adam are 18 bytes per parameter with fp32 gradients") {
    // bf16 parameter 2, fp32 main gradient 4, fp32 master 4, two fp32 moments 8.
    const PlanEvaluator evaluator(test::toy_problem());
    const auto workspace = PlanEvaluator::make_workspace();
    PlanDegrees plan;
    plan.data = 16;
    plan.micro_batches = 2;
    const MemoryBreakdown m = evaluator.simulate(*evaluator.profile(plan), plan, *workspace).memory;
    const double parameters = m.parameters.value() / 2.0;
    CHECK(m.gradients.value() == doctest::Approx(4.0 * parameters));
    CHECK(m.optimizer.value() == doctest::Approx(12.0 * parameters));
    CHECK(parameters ==
          doctest::Approx(static_cast<double>(parameter_count(*evaluator.problem().network))));
  }
}

}  // namespace
}  // namespace plansearch::plan_evaluator_test
