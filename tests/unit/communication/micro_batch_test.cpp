// SPDX-License-Identifier: Apache-2.0
// Messages grow with the micro-batch exactly where they say so, and nothing else about them
// changes.
#include "communication/derive/derive.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "plansearch/transformer_builder.hpp"
#include "random_plans.hpp"
#include "small_networks.hpp"
#include "unit/workload/descriptions.hpp"

namespace plansearch::micro_batch_test {
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
        placement(place_block(network, block, rules)),
        policies(tensor_policies(plan, mesh, framework, DataType::Bf16)) {}

  Framework framework;
  DeviceMesh mesh;
  PlacementRules rules;
  BlockPlacement placement;
  TensorPolicies policies;
};

std::vector<Communication> derived(const Network& network, const Block& block,
                                   const PlanDegrees& plan) {
  const Placed p(network, block, plan);
  return test::derive_communication(network, block, p.rules, p.placement, p.policies,
                                    p.framework.sharding);
}

/// The messages of one sequence, scaled, are the messages of `plan`.
void check_scaling(const Network& network, const Block& block, const PlanDegrees& plan) {
  PlanDegrees one = plan;
  one.micro_batch = 1;
  std::vector<Communication> scaled = derived(network, block, one);
  for (Communication& demand : scaled) {
    if (grows_with_micro_batch(network, block, demand)) demand.elements *= plan.micro_batch;
  }
  CHECK(scaled == derived(network, block, plan));
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
  TEST_CASE("messages of one sequence tell the messages of a micro-batch") {
    for_random_plans(false, check_scaling);
    for_random_plans(true, check_scaling);
  }
}

}  // namespace
}  // namespace plansearch::micro_batch_test
