// SPDX-License-Identifier: Apache-2.0
// Names and roles of dimensions are defaults: where a plan places every operator, another network
// that differs in them alone has the same price.
#include <doctest/doctest.h>

#include <random>

#include "plansearch/evaluator.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/plan_stages.hpp"
#include "support/toy_problem.hpp"
#include "workload/block_builder.hpp"

namespace plansearch::spelled_names_test {
namespace {

constexpr int kLayers = 3;

/// Layers of two products and a sum, the last of which also reads what the first has made.
Network products() {
  Network network;
  network.name = "products";
  for (int i = 0; i < kLayers; ++i) {
    BlockBuilder block(network, "layer" + std::to_string(i), BlockKind::Layer);
    const DimId batch = block.dim("batch", DimRole::Batch, 1);
    const DimId rows = block.dim("rows", DimRole::Sequence, 256);
    const DimId wide = block.dim("wide", DimRole::Hidden, 512);
    const DimId inner = block.dim("inner", DimRole::Ffn, 1024);
    const TensorId in = block.input("stream", {batch, rows, wide});
    const TensorId up =
        block.linear({.name = "up", .input = in, .contracted = {wide}, .outputs = {inner}});
    const TensorId down =
        block.linear({.name = "down", .input = up, .contracted = {inner}, .outputs = {wide}});
    TensorId out = block.elementwise("add", {in, down}, {batch, rows, wide});
    if (i + 1 == kLayers) {
      const TensorId first = block.input("skip", {batch, rows, wide});
      out = block.elementwise("join", {out, first}, {batch, rows, wide});
    }
    network.order.push_back({block.finish({out}), 1});
  }
  network.edges = {{.from = 0, .output = 0, .to = kLayers - 1, .readers = 1, .input = 1}};
  return network;
}

/// Every operator and edge over two factors of two devices, dimensions drawn by their numbers.
Placements random_placements(const Network& network, std::mt19937& random) {
  Placements placements{{2, 2}, {}};
  const auto drawn = [&](const std::vector<DimId>& dims) {
    FactorCuts cuts;
    for (const std::uint8_t factor : {std::uint8_t{0}, std::uint8_t{1}}) {
      const std::size_t where = random() % (dims.size() + 1);
      if (where == dims.size() || dims[where] == DimId{0}) continue;
      if (!cuts.empty() && cuts.front().dim == dims[where]) {
        cuts.front().factors.push_back(factor);
      } else {
        cuts.push_back({dims[where], {factor}});
      }
    }
    return cuts;
  };
  const std::vector<DimId> handed{DimId{0}, DimId{1}, DimId{2}};
  for (const Block& block : network.blocks) {
    BlockChoice& choice = placements.blocks.emplace_back();
    for (const Operator& op : block.operators) choice.operators.emplace_back(drawn(op.loop));
    if (placements.blocks.size() > 1) {
      choice.entering = placements.blocks[placements.blocks.size() - 2].leaving;
    }
    choice.leaving = drawn(handed);
  }
  return placements;
}

Estimate price(const Network& network, const Placements& placements, int stages,
               Recompute recompute) {
  Problem problem = test::toy_problem({.gpus = 4 * stages, .global_batch = 8});
  problem.network = std::make_shared<const Network>(network);
  std::vector<StageDescription> described(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) {
    auto& stage = described[static_cast<std::size_t>(s)];
    stage.degrees.tensor_out = 4;
    stage.degrees.recompute = recompute;
    std::vector<BlockRun> runs = network.order;
    if (stages == 2)
      runs =
          s == 0 ? std::vector{network.order[0]} : std::vector{network.order[1], network.order[2]};
    stage.chunks = {runs};
  }
  auto plan = plan_of_stages(described, {kDefaultSchedule, 8}, problem.global_batch,
                             *problem.framework, network);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  auto placed =
      with_placements(std::get<ParallelPlan>(plan), placements, network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) FAIL(bad->detail);
  const Evaluation result = PlanEvaluator(problem).evaluate(std::get<ParallelPlan>(placed));
  REQUIRE(std::holds_alternative<Estimate>(result));
  return std::get<Estimate>(result);
}

TEST_SUITE("unit") {
  TEST_CASE("other names and no roles: the same step and memory under a spelled-out plan") {
    const Network network = products();
    Network other = network;
    for (Dimension& dimension : other.dimensions) {
      dimension.name = "other_" + dimension.name;
      if (dimension.role != DimRole::Batch) dimension.role = DimRole::Other;
    }
    std::mt19937 random(8);
    for (int i = 0; i < 200; ++i) {
      CAPTURE(i);
      const Placements placements = random_placements(network, random);
      const int stages = 1 + i % 2;
      const Recompute recompute = i % 4 < 2 ? Recompute::None : Recompute::Full;
      CHECK(price(network, placements, stages, recompute) ==
            price(other, placements, stages, recompute));
    }
  }
}

}  // namespace
}  // namespace plansearch::spelled_names_test
