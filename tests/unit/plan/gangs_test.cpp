// SPDX-License-Identifier: Apache-2.0
// Blocks on the devices of all stages: ranks, groups and the way of a micro-batch, by hand.
#include "plan/stages/gangs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "plansearch/plan_stages.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"
#include "support/uniform_plan.hpp"

namespace plansearch::gangs_test {
namespace {

const std::vector<std::string> kEnds{"embedding", "*head*"};

Problem shared_problem(int gpus) {
  test::ToyOptions options;
  options.gpus = gpus;
  return test::with_framework(test::toy_problem(options), [](Framework& framework) {
    framework.shares_devices = true;
    framework.schedules = schedule_names();
  });
}

PlanDegrees degrees_of(int data, int pipeline, int tensor) {
  PlanDegrees degrees;
  degrees.data = data;
  degrees.pipeline = pipeline;
  degrees.tensor_out = tensor;
  degrees.micro_batches = 32 / data;
  return degrees;
}

ParallelPlan shared(const Problem& problem, const ParallelPlan& plan,
                    const std::vector<std::string>& blocks = kEnds) {
  auto made = with_gangs(plan, blocks, *problem.network, *problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(made));
  return std::get<ParallelPlan>(std::move(made));
}

std::string refusal(const Problem& problem, const ParallelPlan& plan,
                    const std::vector<std::string>& blocks = kEnds) {
  const auto made = with_gangs(plan, blocks, *problem.network, *problem.framework);
  const auto* bad = std::get_if<Infeasible>(&made);
  return bad != nullptr ? bad->detail : "accepted";
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Ranks of the group of rank 0 along the tensor axis.
std::vector<int> tensor_group(const DeviceMesh& mesh) {
  std::vector<int> ranks{0};
  for (const AxisExtent& extent : process_group(mesh, AxisSet{Axis::Out}).extents) {
    const std::vector<int> inner = ranks;
    for (int i = 1; i < extent.size; ++i) {
      for (const int rank : inner) ranks.push_back(rank + i * extent.stride);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

TEST_SUITE("unit") {
  // Ranks: tensor fastest, then data, then stages: rank = t + 2 d + 4 s. Replica 0 has t and s
  // free.
  TEST_CASE("the devices of a replica are one tensor group of the blocks on all stages") {
    const Problem problem = shared_problem(16);
    const ParallelPlan before = test::uniform_plan(problem, degrees_of(2, 4, 2));
    const ParallelPlan plan = shared(problem, before);
    CHECK_FALSE(check_plan(plan, *problem.network, *problem.framework, 16, 32, problem.precision));
    const Assignment& held = *plan.assignment;
    REQUIRE(held.gangs.size() == 2);
    CHECK(held.gangs[0].before == 0);
    CHECK(held.gangs[1].before == 4);
    const Transform& together =
        plan.transforms[static_cast<std::size_t>(held.gangs[0].place.transform)];
    CHECK(together.degrees.tensor_out == 8);
    CHECK(together.degrees.data == 2);
    CHECK(tensor_group(together.mesh) == std::vector<int>{0, 1, 4, 5, 8, 9, 12, 13});
    std::vector<int> all(16);
    std::iota(all.begin(), all.end(), 0);
    std::vector<int> ranks = ranks_of(together, held.gangs[0].place.first);
    std::sort(ranks.begin(), ranks.end());
    CHECK(ranks == all);
    // A micro-batch: embedding on all, four stages, the head on all.
    REQUIRE(held.stops.size() == 6);
    CHECK(held.gang_at(0) == &held.gangs[0]);
    CHECK(held.gang_at(5) == &held.gangs[1]);
    for (std::size_t k = 1; k < 5; ++k) {
      CHECK(held.gang_at(k) == nullptr);
      CHECK(held.group_at(k).position == static_cast<int>(k) - 1);
      CHECK(held.group_at(k).blocks == std::vector<BlockRun>{{1, 2}});  // 8 layers on 4 stages
    }
    for (int p = 0; p < 4; ++p) {
      CHECK(held.runs_at(0, p));
      CHECK(held.runs_at(1, p) == (p == 0));
      CHECK(held.contents_of[static_cast<std::size_t>(p)].size() == 3);
    }
    CHECK(held.kinds.size() == 1);  // two layers and a part of both ends each
    CHECK(pass_names(held, *problem.network) ==
          std::vector<std::string>{"f.embedding", "b.embedding", "f0", "b0", "f1", "b1", "f2", "b2",
                                   "f3", "b3", "f.head", "b.head"});
    CHECK(without_gangs(plan, *problem.network) == before);
  }

  TEST_CASE("one block of the two, and chunks: the rest stays on its stage") {
    const Problem problem = shared_problem(4);
    PlanDegrees degrees = degrees_of(1, 4, 1);
    degrees.schedule = *find_schedule("interleaved");
    degrees.chunks = 2;
    const ParallelPlan before = test::uniform_plan(problem, degrees);
    const ParallelPlan plan = shared(problem, before, {"head"});
    CHECK_FALSE(check_plan(plan, *problem.network, *problem.framework, 4, 32, problem.precision));
    REQUIRE(plan.assignment->gangs.size() == 1);
    CHECK(plan.assignment->gangs[0].before == 8);
    CHECK(plan.assignment->groups.front().blocks == std::vector<BlockRun>{{0, 1}, {1, 1}});
    CHECK(without_gangs(plan, *problem.network) == before);
  }

  TEST_CASE("stages of unlike degrees share devices where their data ranks are as many") {
    const Problem problem = shared_problem(6);
    StageDescription wide;
    wide.degrees.tensor_out = 4;
    StageDescription narrow;
    narrow.degrees.tensor_out = 2;
    const auto stages_of = [&](const std::vector<StageDescription>& stages) {
      const auto made =
          plan_of_stages(stages, {kDefaultSchedule, 8}, 32, *problem.framework, *problem.network);
      REQUIRE(std::holds_alternative<ParallelPlan>(made));
      return std::get<ParallelPlan>(made);
    };
    const ParallelPlan plan = shared(problem, stages_of({wide, narrow}));
    const Transform& together = plan.transforms.back();
    CHECK(together.degrees.tensor_out == 6);
    CHECK(tensor_group(together.mesh) == std::vector<int>{0, 1, 2, 3, 4, 5});
    StageDescription twice = narrow;
    twice.degrees.data = 2;
    CHECK(says(refusal(problem, stages_of({narrow, twice})), "of 1 and of 2 data ranks"));
  }

  TEST_CASE("plans without room for it say why; one stage is all devices already") {
    const Problem problem = shared_problem(8);
    const ParallelPlan one = test::uniform_plan(problem, degrees_of(2, 1, 4));
    CHECK(shared(problem, one) == one);
    PlanDegrees context = degrees_of(1, 4, 1);
    context.context = 2;
    CHECK(says(refusal(problem, test::uniform_plan(problem, context)),
               "split over data and one tensor axis"));
    PlanDegrees split = degrees_of(1, 4, 1);
    split.schedule = *find_schedule("zb-h1");
    CHECK(says(refusal(problem, test::uniform_plan(problem, split)), "zb-h1 orders no blocks"));
    // Bridges among the layers of one stage would leave it in two parts.
    Problem bridged = problem;
    Network network = *problem.network;
    Block bridge = network.blocks[1];
    bridge.name = "bridge";
    bridge.kind = BlockKind::Other;
    network.blocks.push_back(bridge);
    network.order = {{0, 1}, {1, 3}, {3, 1}, {1, 5}, {2, 1}};
    bridged.network = std::make_shared<const Network>(network);
    CHECK(says(refusal(bridged, test::uniform_plan(bridged, degrees_of(1, 2, 1)), {"bridge"}),
               "bridge lies in the middle of a stage"));
  }

  TEST_CASE("blocks are split as their own sizes allow") {
    const Problem problem = shared_problem(6);
    PlanDegrees degrees = degrees_of(1, 2, 1);
    ParallelPlan plan = shared(problem, test::uniform_plan(problem, degrees));
    plan.transforms.back().degrees.data = 2;  // another batch than the stages
    CHECK(check_plan(plan, *problem.network, *problem.framework, 2, 32, problem.precision));
    // 16 heads are no concern of embedding and head: twelve devices share the vocabulary.
    const Problem twelve = shared_problem(12);
    test::ToyOptions options;
    options.gpus = 12;
    options.layers = 12;
    Problem layers = twelve;
    layers.network = test::toy_problem(options).network;
    const ParallelPlan wide = shared(layers, test::uniform_plan(layers, degrees_of(1, 12, 1)));
    CHECK_FALSE(check_plan(wide, *layers.network, *layers.framework, 12, 32, layers.precision));
  }

  TEST_CASE("a framework says whether it runs such plans") {
    Framework framework = test::toy_framework();
    REQUIRE(check_shared_devices(framework));
    CHECK(check_shared_devices(framework)->obstacle == Obstacle::FrameworkForbids);
    framework.shares_devices = true;
    CHECK_FALSE(check_shared_devices(framework));
  }
}

}  // namespace
}  // namespace plansearch::gangs_test
