// SPDX-License-Identifier: Apache-2.0
// Plans made from degrees and from stages, and what is refused.
#include "plan/stages/expand.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <variant>

#include "plansearch/evaluator.hpp"
#include "plansearch/plan_stages.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::expand_test {
namespace {

/// 12 layers on 12 or 8 devices, batch 32, nothing tied.
Problem twelve_layers(int gpus) {
  test::ToyOptions options;
  options.gpus = gpus;
  options.layers = 12;
  options.tied = false;
  return test::toy_problem(options);
}

/// Embedding with the first layers, head with the last.
std::vector<BlockRun> blocks_of(const Network& network, std::size_t stage,
                                const std::vector<std::int64_t>& layers) {
  std::vector<BlockRun> runs;
  std::int64_t skip =
      std::accumulate(layers.begin(), layers.begin() + static_cast<long>(stage), std::int64_t{0});
  std::int64_t left = layers[stage];
  for (const BlockRun& run : network.order) {
    const BlockKind kind = network.blocks[run.block].kind;
    if (kind == BlockKind::Embedding) {
      if (stage == 0) runs.push_back(run);
    } else if (kind == BlockKind::Head) {
      if (stage + 1 == layers.size()) runs.push_back(run);
    } else {
      const std::int64_t skipped = std::min(skip, run.count);
      skip -= skipped;
      const std::int64_t taken = std::min(left, run.count - skipped);
      left -= taken;
      if (taken > 0) runs.push_back({run.block, taken});
    }
  }
  return runs;
}

struct Stage {
  int data;
  int tensor;
  std::int64_t layers;
  Recompute recompute;
};

std::variant<ParallelPlan, Infeasible> plan_of(const Problem& problem,
                                               const std::vector<Stage>& stages,
                                               int micro_batches) {
  std::vector<std::int64_t> layers;
  for (const Stage& stage : stages) layers.push_back(stage.layers);
  std::vector<StageDescription> descriptions;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    StageDescription description;
    description.degrees.data = stages[s].data;
    description.degrees.tensor_out = stages[s].tensor;
    description.degrees.recompute = stages[s].recompute;
    description.chunks = {blocks_of(*problem.network, s, layers)};
    descriptions.push_back(std::move(description));
  }
  return plan_of_stages(descriptions, {kDefaultSchedule, micro_batches}, problem.global_batch,
                        *problem.framework, *problem.network);
}

Estimate price(const Problem& problem, const std::vector<Stage>& stages, int micro_batches) {
  const auto plan = plan_of(problem, stages, micro_batches);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  const Evaluation evaluation = PlanEvaluator(problem).evaluate(std::get<ParallelPlan>(plan));
  REQUIRE(std::holds_alternative<Estimate>(evaluation));
  return std::get<Estimate>(evaluation);
}

TEST_SUITE("unit") {
  TEST_CASE("a uniform plan and its stages spelled out have equal prices") {
    const Problem problem = twelve_layers(16);
    const PlanEvaluator evaluator(problem);
    const auto workspace = PlanEvaluator::make_workspace();
    int plans = 0;
    for (const int pipeline : {1, 2, 4}) {
      for (const int tensor : {1, 2, 4}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
          for (const ZeroStage zero : {ZeroStage::None, ZeroStage::Optimizer}) {
            PlanDegrees degrees;
            degrees.pipeline = pipeline;
            degrees.tensor_out = tensor;
            degrees.data = 16 / pipeline / tensor;
            degrees.micro_batches = 32 / degrees.data;
            degrees.recompute = recompute;
            degrees.zero = zero;
            const auto flat = evaluator.expand(degrees);
            REQUIRE(std::holds_alternative<ParallelPlan>(flat));
            const auto spelled =
                plan_of_stages(stages_of(std::get<ParallelPlan>(flat), *problem.framework),
                               {degrees.schedule, degrees.micro_batches}, problem.global_batch,
                               *problem.framework, *problem.network);
            REQUIRE(std::holds_alternative<ParallelPlan>(spelled));
            const Evaluation evaluation = evaluator.evaluate(std::get<ParallelPlan>(spelled));
            REQUIRE(std::holds_alternative<Estimate>(evaluation));
            const Estimate& stages = std::get<Estimate>(evaluation);
            const Estimate uniform =
                evaluator.simulate(*evaluator.profile(degrees), degrees, *workspace);
            CHECK(stages.step == uniform.step);
            CHECK(stages.memory == uniform.memory);
            CHECK(std::get<Estimate>(evaluator.evaluate(std::get<ParallelPlan>(flat))) == uniform);
            ++plans;
          }
        }
      }
    }
    CHECK(plans == 36);
  }

  TEST_CASE("three unequal stages: priced on 4 + 2 + 2 and on 4 + 4 + 4 devices") {
    // Tensor 4, 2, 2; 3, 5 and 4 layers. With 1, 2 and 2 replicas of the last two the stage of
    // five layers does half the sequences and is the busiest no more.
    using enum Recompute;
    const std::vector<Stage> eight{{1, 4, 3, None}, {1, 2, 5, Full}, {1, 2, 4, None}};
    const std::vector<Stage> twelve{{1, 4, 3, None}, {2, 2, 5, Full}, {2, 2, 4, None}};
    const Estimate slow = price(twelve_layers(8), eight, 8);
    const Estimate fast = price(twelve_layers(12), twelve, 8);
    CHECK(slow.busiest_stage == 1);
    CHECK(fast.step.total() < slow.step.total());
    CHECK(slow.imbalance > Seconds(0));
    // The order of stages matters: their ends hold embedding and head.
    const std::vector<Stage> turned{{1, 2, 4, None}, {1, 2, 5, Full}, {1, 4, 3, None}};
    CHECK(price(twelve_layers(8), turned, 8).step.total() != slow.step.total());
  }

  TEST_CASE("what contradicts itself is refused") {
    using enum Recompute;
    const Problem problem = twelve_layers(8);
    const PlanEvaluator evaluator(problem);
    const auto refused = [&](const std::vector<Stage>& stages, int micro_batches) {
      const auto plan = plan_of(problem, stages, micro_batches);
      if (const auto* infeasible = std::get_if<Infeasible>(&plan)) return infeasible->obstacle;
      const Evaluation evaluation = evaluator.evaluate(std::get<ParallelPlan>(plan));
      REQUIRE(std::holds_alternative<InfeasiblePlan>(evaluation));
      return std::get<InfeasiblePlan>(evaluation).reason.obstacle;
    };
    // A layer short; a device short; 32 sequences in 8 micro-batches over 3 ranks.
    CHECK(refused({{1, 4, 3, None}, {1, 4, 8, None}}, 8) == Obstacle::LayersNotDivisible);
    CHECK(refused({{1, 4, 3, None}, {1, 2, 9, None}}, 8) == Obstacle::DegreesDoNotMultiply);
    CHECK(refused({{3, 1, 3, None}, {5, 1, 9, None}}, 8) == Obstacle::BatchNotDivisible);
    // 16 attention heads do not go over three ranks.
    CHECK(refused({{1, 3, 3, None}, {1, 5, 9, None}}, 8) == Obstacle::HeadsNotDivisible);
  }

  TEST_CASE("a plan for another batch or another network has no price") {
    const Problem problem = twelve_layers(8);
    PlanDegrees degrees;
    degrees.data = 8;
    degrees.micro_batches = 4;
    const auto plan = std::get<ParallelPlan>(expand(degrees, *problem.network, *problem.framework));
    CHECK(std::holds_alternative<Estimate>(PlanEvaluator(problem).evaluate(plan)));
    Problem doubled = problem;
    doubled.global_batch *= 2;
    const Evaluation wrong = PlanEvaluator(doubled).evaluate(plan);
    REQUIRE(std::holds_alternative<InfeasiblePlan>(wrong));
    CHECK(std::get<InfeasiblePlan>(wrong).reason.obstacle == Obstacle::BatchNotDivisible);
    test::ToyOptions options;
    options.gpus = 8;
    options.layers = 10;
    const Evaluation foreign = PlanEvaluator(test::toy_problem(options)).evaluate(plan);
    CHECK(std::holds_alternative<InfeasiblePlan>(foreign));
  }

  TEST_CASE("a plan beyond memory carries the price it would have") {
    const Problem problem = twelve_layers(8);
    Problem small = problem;
    small.memory_reserve = problem.cluster->accelerator.memory - Bytes(1e9);
    PlanDegrees degrees;
    degrees.data = 8;
    degrees.micro_batches = 4;
    const auto plan = std::get<ParallelPlan>(expand(degrees, *problem.network, *problem.framework));
    const Evaluation evaluation = PlanEvaluator(small).evaluate(plan);
    REQUIRE(std::holds_alternative<InfeasiblePlan>(evaluation));
    const auto& infeasible = std::get<InfeasiblePlan>(evaluation);
    CHECK(infeasible.reason.obstacle == Obstacle::OutOfMemory);
    REQUIRE(infeasible.estimate.has_value());
    CHECK(infeasible.estimate->step ==
          std::get<Estimate>(PlanEvaluator(problem).evaluate(plan)).step);
  }
}

}  // namespace
}  // namespace plansearch::expand_test
