// SPDX-License-Identifier: Apache-2.0
// Expected values: rows counted by hand from the toy network; fullest_rank has a test of its own.
#include "evaluate/block/local_work.hpp"

#include <doctest/doctest.h>

#include "cost/collective/collective_cost.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/toy_class.hpp"

namespace plansearch::rank_load_test {
namespace {

/// 8 experts, 2 a token, sequences of 512: 1,024 copies of a sequence.
Problem with_spread(std::optional<double> spread) {
  test::ToyOptions options;
  options.experts = 8;
  Problem problem = test::toy_problem(options);
  Network network = *problem.network;
  network.routing->spread = spread;
  problem.network = std::make_shared<const Network>(std::move(network));
  return problem;
}

PlanDegrees spread_plan() {
  PlanDegrees plan;
  plan.data = 8;
  plan.tensor_out = 2;
  plan.sequence_parallel = SequenceParallel::On;
  plan.expert = 4;
  plan.micro_batch = 2;
  plan.micro_batches = 2;
  return plan;
}

double microseconds(Seconds time) {
  return time.value() * 1e6;
}

TEST_SUITE("unit") {
  TEST_CASE("rows of a rank: those of its tensor rank's share of two sequences") {
    const Problem problem = with_spread(0.0);
    const PlanDegrees plan = spread_plan();
    const DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
    CHECK(fullest_rank(*problem.network, mesh, 2) ==
          doctest::Approx(fullest_rank(*problem.network->routing, 4.0, 1024.0)));
    CHECK(fullest_rank(*problem.network, mesh, 2) > 1.02);
  }

  TEST_CASE("the fullest rank multiplies, passes over and keeps its own rows") {
    const PlanDegrees plan = spread_plan();
    const test::ToyClass even(with_spread(std::nullopt), plan);
    const test::ToyClass drawn(with_spread(0.5), plan);
    const DeviceMesh mesh = make_device_mesh(plan, test::toy_framework().rank_order);
    const double load = fullest_rank(drawn.network(), mesh, 2);
    CHECK(load > 1.2);
    const char* block = "decoder-experts";
    // 8 experts on 4 ranks: two products of 512 rows times the load, which lie between the two and
    // three tiles of 256 rows around them.
    REQUIRE(load < 1.5);
    const auto product = [&](double rows) {
      return matmul_time(drawn.chip(), DataType::Bf16, {2, rows, 4096, 1024}) / 0.75;
    };
    const double over = 2.0 * load - 2.0;
    const Seconds between = product(512) * (1.0 - over) + product(768) * over;
    CHECK(microseconds(drawn.time(block, "expert_in").forward) ==
          doctest::Approx(microseconds(between + Seconds(40e-6))));
    CHECK(drawn.time(block, "norm1").forward == even.time(block, "norm1").forward);
    CHECK(drawn.profile(block).memory.saved > even.profile(block).memory.saved);
    const auto dispatch = [&](const test::ToyClass& toy) {
      Seconds sum;
      for (const PricedCommunication& pass : toy.profile(block).passes) {
        if (pass.communication.axes.contains(Axis::Expert) &&
            pass.communication.kind == CommunicationKind::AllToAll) {
          sum += pass.time;
        }
      }
      return sum;
    };
    CHECK(dispatch(drawn).value() > 1.03 * dispatch(even).value());
  }

  TEST_CASE("experts that are padded to a capacity are equally full") {
    Problem problem = with_spread(0.5);
    Network network = *problem.network;
    network.routing->capacity_factor = 1.5;
    const PlanDegrees plan = spread_plan();
    const DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
    CHECK(fullest_rank(network, mesh, 2) == 1.0);
    network.routing.reset();
    CHECK(fullest_rank(network, mesh, 2) == 1.0);
  }
}

}  // namespace
}  // namespace plansearch::rank_load_test
