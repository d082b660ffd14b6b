// SPDX-License-Identifier: Apache-2.0
// Sizes by cuts are the sizes that the placements themselves give.
#include "communication/slices/local_sizes.hpp"

#include <doctest/doctest.h>

#include <random>

#include "plansearch/transformer_builder.hpp"
#include "random_plans.hpp"
#include "small_networks.hpp"
#include "unit/communication/reference_sizes.hpp"
#include "unit/workload/descriptions.hpp"

namespace plansearch::local_sizes_test {
namespace {

Network dense_network() {
  return build_network(test::llama(16, 512, 32, 16, 1536, 3072));
}

Network expert_network() {
  return build_network(test::with_experts(test::llama(16, 512, 32, 32, 1536, 3072), 16, 2));
}

struct Placed {
  Placed(const Network& network, const Block& block, const PlanDegrees& plan)
      : framework(test::plain_framework()),
        mesh(make_device_mesh(plan, framework.rank_order)),
        rules(placement_rules(network, plan, mesh, framework)),
        index(index_block(network, block)),
        placement(place_block(network, block, rules)) {}

  Framework framework;
  DeviceMesh mesh;
  PlacementRules rules;
  BlockIndex index;
  BlockPlacement placement;
};

void check_sizes(const Network& network, const Block& block, const PlanDegrees& plan) {
  const Placed p(network, block, plan);
  const BlockCuts cuts = cut_block(network, block, p.index, p.rules, p.placement);
  std::vector<double> extents;
  placed_extents(network, plan, p.framework, extents);
  const LocalSizes sizes(block, p.index, cuts, extents);
  CHECK(extents == p.rules.extents);
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    CAPTURE(op.name);
    CHECK(sizes.steps(i) == p.placement.operators[i].steps);
    for (std::size_t position = 0; position < op.loop.size(); ++position) {
      CHECK(sizes.loop(i, position) ==
            test::local_extent(op.loop[position], i, block, p.rules, p.placement));
    }
    for (const auto& list : {op.inputs, op.outputs}) {
      for (const TensorId id : list) {
        CHECK(sizes.tensor(i, id) ==
              test::local_tensor_elements(network, block, i, id, p.rules, p.placement));
      }
    }
    for (const ParameterId id : op.parameters) {
      CHECK(sizes.parameter(i, id) ==
            test::local_parameter_elements(block, i, id, p.rules, p.placement));
    }
  }
  for (const auto& list : {block.inputs, block.outputs}) {
    for (const TensorId id : list) {
      std::vector<double> whole;
      for (const DimId dim : block.tensor(id).dims) {
        whole.push_back(p.rules.extents[static_cast<std::size_t>(dim)]);
      }
      CHECK(sizes.edge(id) ==
            local_elements(edge_layout(network, block, id, p.rules), p.mesh, whole));
    }
  }
}

template <typename Check>
void for_random_plans(bool experts, Check check) {
  const Network network = experts ? expert_network() : dense_network();
  std::mt19937 engine(experts ? 21 : 20);
  for (int i = 0; i < 60; ++i) {
    const PlanDegrees plan = test::random_plan(engine, experts);
    for (const Block& block : network.blocks) check(network, block, plan);
  }
}

TEST_SUITE("property") {
  TEST_CASE("sizes by cuts are the sizes of the placement") {
    for_random_plans(false, check_sizes);
    for_random_plans(true, check_sizes);
  }
}

TEST_SUITE("communication") {
  TEST_CASE("an operator is asked only for what it touches") {
    const Network network = dense_network();
    const BlockIndex index = index_block(network, network.blocks.front());
    const OperatorIndex& first = index.operators.front();
    CHECK_THROWS_AS((void)first.use(static_cast<TensorId>(99)), InternalError);
    CHECK_THROWS_AS((void)first.use(static_cast<ParameterId>(99)), InternalError);
  }
}

}  // namespace
}  // namespace plansearch::local_sizes_test
