// SPDX-License-Identifier: Apache-2.0
// Four layers of two products each over 512 tokens of 1024 features: 1,048,576 B a tensor in bf16.
// The last also reads what the first makes, three borders of stages away.
#include <doctest/doctest.h>

#include <algorithm>

#include "plan/stages/expand.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_problem.hpp"
#include "workload/block_builder.hpp"

namespace plansearch::edges_test {
namespace {

constexpr double kTensor = 512 * 1024 * 2;

std::size_t layer(Network& network, const std::string& name, bool skip) {
  BlockBuilder block(network, name, BlockKind::Layer);
  const DimId batch = block.dim("b", DimRole::Batch, 1);
  const DimId tokens = block.dim("t", DimRole::Sequence, 512);
  const DimId in = block.dim("in", DimRole::Other, 1024);
  const DimId inner = block.dim("inner", DimRole::Other, 1024);
  const auto product = [&](const std::string& what, TensorId from, DimId contracted, DimId made) {
    return block.linear(
        {.name = what, .input = from, .contracted = {contracted}, .outputs = {made}});
  };
  const TensorId stream = block.input("stream", {batch, tokens, in});
  TensorId inside = product("up", stream, in, inner);
  if (skip) {
    const TensorId other = block.input("skip", {batch, tokens, in});
    const TensorId more = product("side", other, in, inner);
    inside = block.elementwise("sum", {inside, more}, {batch, tokens, inner});
  }
  return block.finish({product("down", inside, inner, in)});
}

std::shared_ptr<const Network> skipping() {
  auto network = std::make_shared<Network>();
  network->name = "skipping";
  network->order = {{layer(*network, "first", false), 1},
                    {layer(*network, "middle", false), 2},
                    {layer(*network, "last", true), 1}};
  network->edges = {{.from = 0, .output = 0, .to = 3, .readers = 1, .input = 1}};
  return network;
}

Problem problem_with(SkipRoute skips, int micro_batches) {
  test::ToyOptions options;
  options.global_batch = micro_batches;
  Problem problem = test::toy_problem(options);
  Framework framework = *problem.framework;
  framework.skips = skips;
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  problem.network = skipping();
  problem.gpus = 4;
  return problem;
}

PlanDegrees stages_of(int pipeline) {
  PlanDegrees plan;
  plan.pipeline = pipeline;
  plan.micro_batches = 4;
  return plan;
}

PlanDetails details_of(const PlanEvaluator& evaluator, const Problem& problem,
                       const PlanDegrees& degrees) {
  const auto plan = expand(degrees, *problem.network, *problem.framework);
  return plan_details(evaluator, std::get<ParallelPlan>(plan));
}

double activations(const PlanEvaluator& evaluator, const PlanDegrees& plan, int stage) {
  const auto workspace = PlanEvaluator::make_workspace();
  const auto profile = evaluator.profile(plan);
  return evaluator.stage_memory(*profile, plan, stage, *workspace).memory.activations.value();
}

TEST_SUITE("unit") {
  TEST_CASE("on one device a tensor that two layers read is kept once") {
    Problem problem = problem_with(SkipRoute::Direct, 4);
    problem.gpus = 1;
    const PlanEvaluator evaluator(problem);
    // Inputs of the four layers and of their second products: the result of the first is the
    // input of the second and the skip of the last.
    CHECK(activations(evaluator, stages_of(1), 0) == (4 + 4) * kTensor);
    PlanDegrees again = stages_of(1);
    again.recompute = Recompute::Full;
    CHECK(activations(evaluator, again, 0) == 4 * kTensor);  // inputs of whole layers
    again.recompute_layers = 1;  // the first keeps its input, the others all
    CHECK(activations(evaluator, again, 0) == (1 + 2 + 2 + 2) * kTensor);
  }

  TEST_CASE("a skip over three borders is kept where it is read, and where it is passed on") {
    struct Row {
      SkipRoute skips;
      double third;
    };
    // 1F1B keeps four to one micro-batches; a layer its input and that of its second product, the
    // last the skip besides. The second reads it along the chain, the third only passes it.
    for (const Row& row : {Row{SkipRoute::Direct, 2}, Row{SkipRoute::Relayed, 3}}) {
      const PlanEvaluator evaluator(problem_with(row.skips, 4));
      CHECK(activations(evaluator, stages_of(4), 0) == 4 * 2 * kTensor);
      CHECK(activations(evaluator, stages_of(4), 1) == 3 * 2 * kTensor);
      CHECK(activations(evaluator, stages_of(4), 2) == 2 * row.third * kTensor);
      CHECK(activations(evaluator, stages_of(4), 3) == 1 * 3 * kTensor);
    }
  }

  TEST_CASE("a skip is one message from its maker to its reader, or rides with all on the way") {
    const auto bytes = [](SkipRoute skips) {
      std::vector<double> sent;
      const Problem problem = problem_with(skips, 4);
      const PlanEvaluator evaluator(problem);
      for (const StageReport& stage : details_of(evaluator, problem, stages_of(4)).stages) {
        sent.push_back(stage.edge_bytes.value());
      }
      return sent;
    };
    CHECK(bytes(SkipRoute::Direct) == std::vector{kTensor, kTensor, kTensor, 0.0});
    // To the second stage it goes along the chain as its input.
    CHECK(bytes(SkipRoute::Relayed) == std::vector{kTensor, 2 * kTensor, 2 * kTensor, 0.0});
  }

  TEST_CASE("readers in one stage share one message") {
    Problem problem = problem_with(SkipRoute::Direct, 4);
    Network network = *problem.network;
    network.order[1].count = 1;
    network.order[2].count = 2;
    network.edges.front().to = 2;
    network.edges.front().readers = 2;
    problem.network = std::make_shared<const Network>(network);
    problem.gpus = 2;
    const PlanEvaluator evaluator(problem);
    // Two layers that read the skip on the second stage: it comes once, and is kept once.
    const PlanDegrees plan = stages_of(2);
    CHECK(activations(evaluator, plan, 1) == (2 * 3 - 1) * kTensor);
    const auto lines = details_of(evaluator, problem, plan).communication;
    const auto skip = std::find_if(lines.begin(), lines.end(), [](const PricedCommunication& line) {
      return line.what.starts_with("skip");
    });
    REQUIRE(skip != lines.end());
    CHECK(skip->bytes == Bytes(kTensor));
    CHECK(skip->count == 4);  // micro-batches
  }
}

}  // namespace
}  // namespace plansearch::edges_test
