// SPDX-License-Identifier: Apache-2.0
#include "plansearch/plan_report.hpp"

#include <doctest/doctest.h>

#include "support/toy_problem.hpp"

namespace plansearch::slow_mode_test {
namespace {

/// Nodes of 8; 10 % of runs on 2 nodes and 50 % on 32 wait 0.5 s.
Cluster with_slow_mode() {
  Cluster cluster = *test::toy_problem().cluster;
  FabricCurve fabric;
  fabric.name = "slow";
  fabric.slow_mode = SlowMode{Seconds(0.5), {{2, 0.1}, {32, 0.5}}};
  cluster.accelerators_per_node = 8;
  cluster.tiers.back().curve = fabric;
  return cluster;
}

PlanDegrees pipeline(int stages, int micro_batches) {
  PlanDegrees plan;
  plan.pipeline = stages;
  plan.micro_batches = micro_batches;
  return plan;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("slow mode: every slot waits for every neighbouring stage") {
    const Cluster cluster = with_slow_mode();
    // 8 micro-batches on 4 stages are 11 slots, a stage inside has 2 neighbours: 11 x 2 x 0.5 s.
    CHECK(slow_runs(cluster, pipeline(4, 8), 64)->excess.value() == doctest::Approx(11.0));
    // Two stages have one neighbour each: 9 x 0.5 s.
    CHECK(slow_runs(cluster, pipeline(2, 8), 64)->excess.value() == doctest::Approx(4.5));
    // Chunks were not measured: no more waits than with one.
    PlanDegrees chunked = pipeline(4, 8);
    chunked.chunks = 5;
    CHECK(slow_runs(cluster, chunked, 64)->excess.value() == doctest::Approx(11.0));
    CHECK_FALSE(slow_runs(cluster, pipeline(1, 8), 64).has_value());
  }

  TEST_CASE("slow mode: the share follows the logarithm of the nodes between measured ones") {
    const Cluster cluster = with_slow_mode();
    const auto share = [&](int devices) {
      return slow_runs(cluster, pipeline(2, 8), devices)->share;
    };
    CHECK(share(8) == doctest::Approx(0.1));
    CHECK(share(16) == doctest::Approx(0.1));
    CHECK(share(64) == doctest::Approx(0.3));  // 8 nodes: half way from 2 to 32
    CHECK(share(4096) == doctest::Approx(0.5));
  }

  TEST_CASE("a fabric without such runs has no slow mode") {
    CHECK_FALSE(slow_runs(*test::toy_problem().cluster, pipeline(4, 8), 64).has_value());
  }
}

}  // namespace plansearch::slow_mode_test
