// SPDX-License-Identifier: Apache-2.0
// Expected values: spans of equal pieces are the work (no bubble), from the paper and from a
// simulation by an independent script; peaks p micro-batches (2 p chunks) on every device.
#include <doctest/doctest.h>

#include "golden.hpp"
#include "schedule/simulation/closed_form.hpp"

namespace plansearch::testing::zb_v_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("ZB-V: equal pieces leave no bubble on any device") {
    CHECK(summary_of(shape_of("zb-v", 4, 8, 2), {1, 1, 1}).span == 48);
    CHECK(summary_of(shape_of("zb-v", 4, 12, 2), {1, 1, 1}).span == 72);
    CHECK(summary_of(shape_of("zb-v", 8, 24, 2), {1, 1, 1}).span == 144);
  }

  TEST_CASE("ZB-V keeps as much as 1F1B on its first device") {
    const auto peaks = summary_of(shape_of("zb-v", 4, 9, 2), {1, 1, 1}).peak_activations;
    CHECK(peaks == std::vector<double>{4, 4, 4, 4});
  }

  TEST_CASE("ZB-V takes two chunks and 2 p - 1 micro-batches") {
    const ScheduleId id = *find_schedule("zb-v");
    CHECK(to_text(id, *fault_of(shape_of("zb-v", 4, 9, 3))) ==
          "zb-v takes 2 chunks per stage, not 3");
    CHECK(to_text(id, *fault_of(shape_of("zb-v", 4, 6, 2))) ==
          "zb-v takes at least 7 micro-batches, not 6");
  }

  // Devices of work 100, 1, 100, 1 per chunk. As if placed in a loop, the first device would hold
  // virtual stages 0 and 4; in a V it holds 0 and 7 and enters at once.
  TEST_CASE("the bound of a V knows where its stages are") {
    const PipelineShape shape = shape_of("zb-v", 4, 12, 2);
    const std::vector<Ticks> by_stage{100, 1, 100, 1, 1, 100, 1, 100};
    PipelineDurations times = uniform_durations(shape, {});
    times.forward = times.backward = times.weight_gradient = by_stage;
    // Device 0: 2 chunks x 3 x 100 x 12 micro-batches, from the start on.
    // Device 2 starts after stages 0 and 1: head 101; its last gradient leaves over 1 + 100.
    // It may end with weight gradients (12 x 200), so that nothing follows: 101 + 7200.
    CHECK(order_bound(shape, times.view()) == 7301);
    PipelineSimulator simulator;
    CHECK(simulator.run(shape, times.view()).makespan >= 7301);
  }
}

}  // namespace
}  // namespace plansearch::testing::zb_v_test
