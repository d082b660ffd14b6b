// SPDX-License-Identifier: Apache-2.0
// Ways between stages, counted by hand on the toy machine: nodes of eight.
#include "evaluate/step/boundary.hpp"

#include <doctest/doctest.h>

#include <variant>

#include "plansearch/plan_stages.hpp"
#include "support/toy_problem.hpp"
#include "support/uniform_plan.hpp"

namespace plansearch::boundary_test {
namespace {

PlanDegrees stages_of_tensor(int pipeline, int tensor) {
  PlanDegrees degrees;
  degrees.pipeline = pipeline;
  degrees.tensor_out = tensor;
  degrees.micro_batches = pipeline;
  return degrees;
}

Problem problem_on(int gpus) {
  test::ToyOptions options;
  options.gpus = gpus;
  options.layers = gpus;
  return test::toy_problem(options);
}

TEST_SUITE("unit") {
  TEST_CASE("of neighbours on single ranks every eighth leaves its node") {
    // Ranks 0 .. 15, nodes 0-7 and 8-15: only 7 -> 8 crosses.
    const Problem problem = problem_on(16);
    const ParallelPlan plan = test::uniform_plan(problem, stages_of_tensor(16, 1));
    for (int stage = 0; stage + 1 < 16; ++stage) {
      CHECK(boundary_route(*problem.cluster, plan, stage, stage + 1).left_domain ==
            (stage == 7 ? 8 : 0));
    }
  }

  TEST_CASE("stages of three ranks: a pair that crosses decides") {
    // Stages 0-2, 3-5, 6-8, 9-11, 12-14 of tensor 3: pairs r, r + 3. 3-5 -> 6-8 has 5 -> 8,
    // 6-8 -> 9-11 has 6 -> 9, the others stay inside 0-7 or 8-15.
    const Problem problem = problem_on(15);
    const ParallelPlan plan = test::uniform_plan(problem, stages_of_tensor(5, 3));
    const std::vector<int> expected{0, 8, 8, 0};
    for (int stage = 0; stage < 4; ++stage) {
      CHECK(boundary_route(*problem.cluster, plan, stage, stage + 1).left_domain ==
            expected[static_cast<std::size_t>(stage)]);
    }
  }

  TEST_CASE("from four tensor ranks to two: half of the holders send, all of them get it back") {
    // Replicated over tensor: every rank holds the whole stream. Two receivers ask two holders, a
    // tile each. Backward four receivers ask two holders, who send two tiles each.
    const Problem problem = problem_on(6);
    StageDescription wide;
    wide.degrees.tensor_out = 4;
    StageDescription narrow;
    narrow.degrees.tensor_out = 2;
    const std::vector<StageDescription> stages{wide, narrow};
    const auto made =
        plan_of_stages(stages, {kDefaultSchedule, 2}, 8, *problem.framework, *problem.network);
    REQUIRE(std::holds_alternative<ParallelPlan>(made));
    const ParallelPlan& plan = std::get<ParallelPlan>(made);
    CHECK(ranks_of(plan, 0) == std::vector<int>{0, 1, 2, 3});
    CHECK(ranks_of(plan, 1) == std::vector<int>{4, 5});
    CHECK(boundary_route(*problem.cluster, plan, 0, 1) == StageLink{0, 1.0, 2.0});
  }

  TEST_CASE("over the network replicas of one node get their tile once") {
    // One stage of eight tensor ranks on node 0, one of four on half of node 1, another on the
    // rest. Every rank holds the whole stream. A part of a quarter goes to each of the four, who
    // gather: node 1 takes in one tile, as much as a rank of node 0 would send if all eight sent an
    // eighth; cards are one per rank of the toy machine, and a rank sends a quarter. Backward eight
    // ranks of node 0 want the stream: an eighth each.
    const Problem problem = problem_on(16);
    StageDescription wide;
    wide.degrees.tensor_out = 8;
    StageDescription narrow;
    narrow.degrees.tensor_out = 4;
    const std::vector<StageDescription> stages{wide, narrow, narrow};
    const auto made =
        plan_of_stages(stages, {kDefaultSchedule, 2}, 8, *problem.framework, *problem.network);
    REQUIRE(std::holds_alternative<ParallelPlan>(made));
    const auto route = boundary_route(*problem.cluster, std::get<ParallelPlan>(made), 0, 1);
    CHECK(route.left_domain == 8);
    CHECK(route.forward == doctest::Approx(1.0 / 4));
    CHECK(route.backward == doctest::Approx(1.0 / 4));
    CHECK(route.forward_gather == RouteGather{1.0, 4});
    CHECK(route.backward_gather == RouteGather{1.0, 8});
  }

  TEST_CASE("from one replica to two: the one sends both halves") {
    // The stream of one rank goes in halves to two: it sends all of its tile; backward it
    // receives all of it.
    const Problem problem = problem_on(3);
    StageDescription one;
    StageDescription two;
    two.degrees.data = 2;
    const std::vector<StageDescription> stages{one, two};
    const auto made =
        plan_of_stages(stages, {kDefaultSchedule, 2}, 8, *problem.framework, *problem.network);
    REQUIRE(std::holds_alternative<ParallelPlan>(made));
    const ParallelPlan& plan = std::get<ParallelPlan>(made);
    CHECK(plan.transforms[0].degrees.micro_batch == 4);
    CHECK(plan.transforms[1].degrees.micro_batch == 2);
    CHECK(boundary_route(*problem.cluster, plan, 0, 1) == StageLink{0, 1.0, 1.0});
  }
}

}  // namespace
}  // namespace plansearch::boundary_test
