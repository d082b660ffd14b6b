// SPDX-License-Identifier: Apache-2.0
// Megatron-LM@d98e8a64 (2026-08-22) megatron/core/pipeline_parallel/combined_1f1b.py: phases of
// combined_1f1b_schedule_for_no_pipelining.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::pairs_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("pairs: four micro-batches of one device, written out") {
    const PipelineShape shape = shape_of("pairs", 1, 4, 1);
    const auto order = std::get<ComputeOrder>(make_order(shape));
    using enum Phase;
    CHECK(order.devices[0] == std::vector<ComputeStep>{{0, 0, Forward},
                                                       {0, 0, Backward},
                                                       {0, 1, Forward, true},
                                                       {0, 1, Backward},
                                                       {0, 2, Forward, true},
                                                       {0, 2, Backward},
                                                       {0, 3, Forward, true},
                                                       {0, 3, Backward}});
    CHECK(peak_chunks(shape, 0) == 1);
    CHECK(joined_forwards(shape) == std::vector<int>{3});
  }

  TEST_CASE("pairs: a first forward, a last backward, pairs between them") {
    // F and B of 2 and 4 ticks, 5 together: 2 + 9 x 5 + 4.
    const PipelineShape shape = shape_of("pairs", 1, 10, 1);
    PipelineSimulator simulator;
    const auto times = uniform_durations(shape, {2, 4, 0, 0, 5});
    CHECK(summarize(shape, simulator.run(shape, times.view())).makespan == 2 + 9 * 5 + 4);
  }

  TEST_CASE("pairs: stages have an order of their own") {
    CHECK(std::holds_alternative<Infeasible>(make_order(shape_of("pairs", 2, 4, 1))));
  }
}

}  // namespace
}  // namespace plansearch::testing::pairs_test
