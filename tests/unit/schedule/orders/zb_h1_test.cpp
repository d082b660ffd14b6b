// SPDX-License-Identifier: Apache-2.0
// Expected values: closed form of the paper, bubble (p - 1)(F + B - W), and makespans of a
// simulation by an independent script for the triples below.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::zb_h1_test {
namespace {

Ticks makespan(int stages, int micro_batches, Triple t) {
  return summary_of(shape_of("zb-h1", stages, micro_batches), t).makespan;
}

TEST_SUITE("schedule") {
  TEST_CASE("ZB-H1: two stages, written out") {
    const auto order = std::get<ComputeOrder>(make_order({*find_schedule("zb-h1"), 2, 3}));
    using enum Phase;
    CHECK(order.devices[0] == std::vector<ComputeStep>{{0, 0, Forward},
                                                       {0, 1, Forward},
                                                       {0, 0, Backward},
                                                       {0, 0, WeightGradient},
                                                       {0, 2, Forward},
                                                       {0, 1, Backward},
                                                       {0, 1, WeightGradient},
                                                       {0, 2, Backward},
                                                       {0, 2, WeightGradient}});
    // The last device is one weight gradient behind, and ends with it.
    CHECK(order.devices[1] == std::vector<ComputeStep>{{0, 0, Forward},
                                                       {0, 0, Backward},
                                                       {0, 1, Forward},
                                                       {0, 1, Backward},
                                                       {0, 0, WeightGradient},
                                                       {0, 2, Forward},
                                                       {0, 2, Backward},
                                                       {0, 1, WeightGradient},
                                                       {0, 2, WeightGradient}});
  }

  TEST_CASE("ZB-H1: makespans of equal stages") {
    CHECK(makespan(4, 8, {1, 1, 1}) == 27);
    CHECK(makespan(4, 12, {1, 1, 1}) == 39);
    CHECK(makespan(8, 24, {1, 1, 1}) == 79);
    for (const auto& [t, four, eight] : {std::tuple{Triple{2, 3, 1}, 12, 28},
                                         {Triple{10, 12, 8}, 42, 98},
                                         {Triple{3, 4, 2}, 15, 35}}) {
      CHECK(makespan(4, 8, t) == 8 * t.work() + four);
      CHECK(makespan(8, 24, t) == 24 * t.work() + eight);
    }
  }

  TEST_CASE("ZB-H1: every device keeps as much as the first one of 1F1B") {
    const PipelineShape shape{*find_schedule("zb-h1"), 4, 9};
    const std::vector<Bytes> whole{Bytes(10)};
    const std::vector<Bytes> for_weight{Bytes(4)};
    for (int device = 0; device < 4; ++device) {
      CHECK(peak_chunks(shape, device) == 4);
      // Device r: 4 - r in full, r of which only the inputs of the weight gradient are left.
      CHECK(peak_activation_bytes(shape, device, whole, for_weight) ==
            Bytes(10.0 * (4 - device) + 4.0 * device));
    }
  }
}

}  // namespace
}  // namespace plansearch::testing::zb_h1_test
