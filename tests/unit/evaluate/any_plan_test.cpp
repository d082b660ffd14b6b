// SPDX-License-Identifier: Apache-2.0
// `evaluate` has an answer for any plan at all: a price, or a reason. Nothing is assumed of plans
// that a caller put together by hand, and nothing may be thrown or read out of bounds.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "plan/stages/expand.hpp"
#include "plansearch/evaluator.hpp"
#include "support/rounds.hpp"
#include "support/schedules.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::any_plan_test {
namespace {

/// 16 GPUs: 4 stages of 2 replicas of 2 tensor ranks; 32 sequences in 8 micro-batches of 2.
PlanDegrees degrees() {
  PlanDegrees d;
  d.data = 2;
  d.pipeline = 4;
  d.tensor_out = 2;
  d.micro_batch = 2;
  d.micro_batches = 8;
  return d;
}

ParallelPlan plan_of(const Problem& problem, const PlanDegrees& degrees) {
  return std::get<ParallelPlan>(expand(degrees, *problem.network, *problem.framework));
}

/// The reason; a plan that has a price fails the test.
Infeasible reason(const Evaluation& evaluation) {
  REQUIRE(std::holds_alternative<InfeasiblePlan>(evaluation));
  return std::get<InfeasiblePlan>(evaluation).reason;
}

/// The plan with one thing broken.
ParallelPlan broken(const Problem& problem,
                    const std::function<void(ParallelPlan&, Assignment&)>& how) {
  ParallelPlan plan = plan_of(problem, degrees());
  auto assignment = std::make_shared<Assignment>(*plan.assignment);
  plan.assignment = assignment;
  how(plan, *assignment);
  return plan;
}

}  // namespace

TEST_SUITE("evaluate") {
  TEST_CASE("degrees, their plan and their profile have one price") {
    const PlanEvaluator evaluator(test::toy_problem());
    const Evaluation from_degrees = evaluator.evaluate(degrees());
    const Evaluation from_plan = evaluator.evaluate(plan_of(evaluator.problem(), degrees()));
    const auto workspace = PlanEvaluator::make_workspace();
    const Evaluation from_profile =
        evaluator.evaluate(*evaluator.profile(degrees()), degrees(), *workspace);
    CHECK(std::get<Estimate>(from_degrees) == std::get<Estimate>(from_plan));
    CHECK(std::get<Estimate>(from_degrees) == std::get<Estimate>(from_profile));
  }

  TEST_CASE("another batch, another machine, other layers") {
    const Problem problem = test::toy_problem();
    const PlanEvaluator evaluator(problem);
    const ParallelPlan plan = plan_of(problem, degrees());
    // 2 replicas x 2 sequences x 7 micro-batches = 28, not 32
    PlanDegrees fewer = degrees();
    fewer.micro_batches = 7;
    CHECK(reason(evaluator.evaluate(fewer)).obstacle == Obstacle::BatchNotDivisible);
    CHECK(reason(evaluator.evaluate(plan_of(problem, fewer))).detail ==
          "the plan takes 28 sequences per step, not 32");
    test::ToyOptions options;
    options.gpus = 8;
    const PlanEvaluator smaller(test::toy_problem(options));
    CHECK(reason(smaller.evaluate(plan)).obstacle == Obstacle::DegreesDoNotMultiply);
    CHECK(reason(smaller.evaluate(degrees())).obstacle == Obstacle::DegreesDoNotMultiply);
    options = {};
    options.layers = 12;
    CHECK(reason(PlanEvaluator(test::toy_problem(options)).evaluate(plan)).obstacle ==
          Obstacle::LayersNotDivisible);
    options = {};
    options.heads = 25;  // 25 heads on 2 tensor ranks
    options.hidden = 1600;
    CHECK(reason(PlanEvaluator(test::toy_problem(options)).evaluate(plan)).obstacle ==
          Obstacle::HeadsNotDivisible);
    options = {};
    options.tied = false;  // another list of blocks
    const Evaluation untied = PlanEvaluator(test::toy_problem(options)).evaluate(plan);
    CHECK((std::holds_alternative<Estimate>(untied) || !reason(untied).detail.empty()));
  }

  TEST_CASE("beyond memory, the price comes with the reason") {
    Problem problem = test::toy_problem();
    const Estimate roomy = std::get<Estimate>(PlanEvaluator(problem).evaluate(degrees()));
    problem.memory_reserve = problem.cluster->accelerator.memory - Bytes(1e9);
    const PlanEvaluator evaluator(problem);
    const auto workspace = PlanEvaluator::make_workspace();
    for (const Evaluation& evaluation :
         {evaluator.evaluate(degrees()), evaluator.evaluate(plan_of(problem, degrees())),
          evaluator.evaluate(*evaluator.profile(degrees()), degrees(), *workspace)}) {
      CHECK(reason(evaluation).obstacle == Obstacle::OutOfMemory);
      CHECK(reason(evaluation).needed == roomy.memory.total().value());
      CHECK(reason(evaluation).available == 1e9);
      CHECK(std::get<InfeasiblePlan>(evaluation).estimate == roomy);
    }
  }

  TEST_CASE("a class profile of another plan or another problem") {
    const PlanEvaluator evaluator(test::toy_problem());
    const auto workspace = PlanEvaluator::make_workspace();
    const auto own = evaluator.profile(degrees());
    const std::string expected = "the class profile is another plan's or another problem's";
    PlanDegrees wider = degrees();
    wider.tensor_out = 4;
    wider.pipeline = 2;
    CHECK(reason(evaluator.evaluate(*own, wider, *workspace)).detail == expected);
    PlanDegrees sharded = degrees();
    sharded.zero = ZeroStage::Optimizer;
    CHECK(reason(evaluator.evaluate(*own, sharded, *workspace)).detail == expected);
    PlanDegrees repeated = degrees();
    repeated.recompute = Recompute::Full;
    CHECK(reason(evaluator.evaluate(*own, repeated, *workspace)).detail == expected);
    const PlanEvaluator twin(test::toy_problem());
    CHECK(reason(twin.evaluate(*own, degrees(), *workspace)).detail == expected);
    // Plans of one class share a profile: here they differ in the schedule alone.
    PlanDegrees other_order = degrees();
    other_order.schedule = test::kGPipe;
    CHECK(std::holds_alternative<Estimate>(evaluator.evaluate(*own, other_order, *workspace)));
  }

  TEST_CASE("plans that contradict themselves") {
    const Problem problem = test::toy_problem();
    const PlanEvaluator evaluator(problem);
    using Break = std::function<void(ParallelPlan&, Assignment&)>;
    const std::vector<Break> breaks{
        [](ParallelPlan& p, Assignment&) { p.assignment.reset(); },
        [](ParallelPlan& p, Assignment&) { p.transforms.clear(); },
        [](ParallelPlan& p, Assignment&) { p.order.micro_batches = 0; },
        [](ParallelPlan& p, Assignment&) { p.order.micro_batches = 4; },
        [](ParallelPlan& p, Assignment&) { p.order.schedule = static_cast<ScheduleId>(200); },
        [](ParallelPlan& p, Assignment&) { p.transforms[0].degrees.data = 0; },
        [](ParallelPlan& p, Assignment&) { p.transforms[0].degrees.data = -2; },
        [](ParallelPlan& p, Assignment&) { p.transforms[0].degrees.data = 4; },
        [](ParallelPlan& p, Assignment&) { p.transforms[0].degrees.tensor_in = 1 << 30; },
        [](ParallelPlan& p, Assignment&) { p.transforms[0].mesh = {}; },
        [](ParallelPlan&, Assignment& a) { a.positions.clear(); },
        [](ParallelPlan&, Assignment& a) { a.positions[1].transform = 1; },
        [](ParallelPlan&, Assignment& a) { a.positions[1].transform = -1; },
        [](ParallelPlan&, Assignment& a) { a.positions[1].first = 0; },
        [](ParallelPlan&, Assignment& a) { a.positions[3].first = 13; },
        [](ParallelPlan&, Assignment& a) { a.positions[3].first = -1; },
        [](ParallelPlan&, Assignment& a) { a.groups.pop_back(); },
        [](ParallelPlan&, Assignment& a) { a.groups[2].position = 4; },
        [](ParallelPlan&, Assignment& a) { a.groups[2].chunk = 1; },
        [](ParallelPlan&, Assignment& a) { a.groups[2].content = 99; },
        [](ParallelPlan&, Assignment& a) { a.groups[1].blocks[0].block = 99; },
        [](ParallelPlan&, Assignment& a) { a.groups[1].blocks[0].count = -1; },
        [](ParallelPlan&, Assignment& a) { std::swap(a.groups[0].position, a.groups[1].position); },
        [](ParallelPlan&, Assignment& a) { a.contents.clear(); },
        [](ParallelPlan&, Assignment& a) { a.contents_of.clear(); },
        [](ParallelPlan&, Assignment& a) { a.kinds.clear(); },
        [](ParallelPlan&, Assignment& a) { a.kind_of[0] = 7; },
        [](ParallelPlan&, Assignment& a) { a.chunks = 2; },
        [](ParallelPlan&, Assignment& a) { a.chunks = 0; },
    };
    for (std::size_t i = 0; i < breaks.size(); ++i) {
      CAPTURE(i);
      CHECK_FALSE(reason(evaluator.evaluate(broken(problem, breaks[i]))).detail.empty());
    }
    CHECK(std::holds_alternative<Estimate>(
        evaluator.evaluate(broken(problem, [](ParallelPlan&, Assignment&) {}))));
  }

  TEST_CASE("any degrees at all") {
    const PlanEvaluator evaluator(test::toy_problem());
    std::mt19937 random(7);
    const std::vector<int> values{std::numeric_limits<int>::min(), -1, 0, 1, 1, 2, 2, 4, 8, 16, 32,
                                  std::numeric_limits<int>::max()};
    const auto any = [&] { return values[random() % values.size()]; };
    int priced = 0;
    for (int i = 0; i < test::rounds(20000); ++i) {
      PlanDegrees d = degrees();
      // A few degrees at a time: more than that never fit.
      for (int* field : {&d.data, &d.pipeline, &d.chunks, &d.tensor_in, &d.tensor_out,
                         &d.tensor_depth, &d.context, &d.expert, &d.expert_tensor, &d.shard_group,
                         &d.micro_batch, &d.micro_batches, &d.pieces}) {
        if (random() % 6 == 0) *field = any();
      }
      const Evaluation evaluation = evaluator.evaluate(d);
      if (std::holds_alternative<Estimate>(evaluation)) {
        ++priced;
      } else {
        CHECK_FALSE(reason(evaluation).detail.empty());
      }
    }
    CHECK(priced > test::rounds(100));
  }
}

}  // namespace plansearch::any_plan_test
