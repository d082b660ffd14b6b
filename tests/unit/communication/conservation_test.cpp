// SPDX-License-Identifier: Apache-2.0
// Work is neither lost nor invented: over the devices of the machine, the local loop nests of every
// matrix product sum to the nest of the whole batch, whatever the plan.
#include <doctest/doctest.h>

#include <random>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/transformer_builder.hpp"
#include "random_plans.hpp"
#include "small_networks.hpp"
#include "support/rounds.hpp"
#include "support/schedules.hpp"
#include "unit/communication/reference_sizes.hpp"
#include "unit/workload/descriptions.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::conservation_test {
namespace {

/// Matrix products but for the router, which every tensor rank runs for all its tokens.
bool is_divided(const Network& network, const Operator& op) {
  if (!traits(op).is_product()) return false;
  return std::none_of(op.loop.begin(), op.loop.end(), [&](DimId dim) {
    return network.dimension(dim).role == DimRole::ExpertChoice;
  });
}

void check_conserved(const Network& network, const PlanDegrees& plan) {
  const Framework framework = test::plain_framework();
  const DeviceMesh mesh = make_device_mesh(plan, framework.rank_order);
  const PlacementRules rules = placement_rules(network, plan, mesh, framework);
  const double stage = plan.devices() / plan.pipeline;
  const double sequences = plan.micro_batch * plan.data * plan.tensor_depth;
  for (const Block& block : network.blocks) {
    const BlockPlacement placement = place_block(network, block, rules);
    for (std::size_t i = 0; i < block.operators.size(); ++i) {
      const Operator& op = block.operators[i];
      if (!is_divided(network, op)) continue;
      CAPTURE(op.name);
      // AxoNN: after the all-reduce over `in` its ranks hold the same heads and all attend.
      const double repeated = op.kind == OperatorKind::Attention ? plan.tensor_in : 1;
      const double once = element_count(network, op.loop) * sequences * repeated;
      const double steps = placement.operators[i].steps;
      for (const OperatorPhase phase :
           {OperatorPhase::Forward, OperatorPhase::InputGradient, OperatorPhase::WeightGradient}) {
        CHECK(test::local_points(i, block, rules, placement, phase) * steps * stage ==
              doctest::Approx(once).epsilon(1e-12));
      }
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("every partition of a dense network conserves its products") {
    const Network network = build_network(test::llama(16, 512, 32, 16, 1536, 3072));
    std::mt19937 engine(11);
    for (int i = 0; i < test::rounds(300); ++i)
      check_conserved(network, test::random_plan(engine, false));
  }

  TEST_CASE("every partition of a network of experts conserves its products") {
    const Network network =
        build_network(test::with_experts(test::llama(16, 512, 32, 32, 1536, 3072), 16, 2));
    std::mt19937 engine(12);
    for (int i = 0; i < test::rounds(300); ++i)
      check_conserved(network, test::random_plan(engine, true));
  }

  TEST_CASE("stages hold every layer once, embedding first and head last") {
    const Network network = build_network(test::llama(48, 64, 8, 8, 128, 512));
    std::mt19937 engine(13);
    for (int i = 0; i < test::rounds(200); ++i) {
      PlanDegrees plan;
      plan.pipeline = 1 + static_cast<int>(engine() % 8);
      plan.chunks = plan.pipeline > 1 ? 1 + static_cast<int>(engine() % 3) : 1;
      plan.schedule = plan.chunks > 1 ? test::kInterleaved : kDefaultSchedule;
      Framework framework = test::plain_framework();
      framework.layers = static_cast<LayerDistribution>(engine() % 4);
      const auto made = distribute_layers(network, plan, framework);
      const auto* stages = std::get_if<StageRuns>(&made);
      if (stages == nullptr) continue;
      CAPTURE(plan.pipeline);
      CAPTURE(plan.chunks);
      CAPTURE(to_text(framework.layers));
      CHECK(stages->size() == static_cast<std::size_t>(plan.pipeline * plan.chunks));
      // Read one after another, the stages are the network.
      std::vector<std::size_t> walked;
      for (const auto& stage : *stages) {
        for (const BlockRun& run : stage) {
          for (std::int64_t n = 0; n < run.count; ++n) walked.push_back(run.block);
        }
      }
      std::vector<std::size_t> whole;
      for (const BlockRun& run : network.order) {
        for (std::int64_t n = 0; n < run.count; ++n) whole.push_back(run.block);
      }
      CHECK(walked == whole);
    }
  }
}

}  // namespace
}  // namespace plansearch::conservation_test
