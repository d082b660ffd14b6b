// SPDX-License-Identifier: Apache-2.0
// Expected values: the table of deepseek-ai/DualPipe's README with PP = 2 p stages on p devices, in
// chunks: bubble (p - 1)(F&B + B - 3 W), B the whole backward; at most 2 p + 1 chunks on a device.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::dualpipe_v_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("DualPipeV: the bubble of its table when nothing is gained by overlapping") {
    for (const int p : {2, 4, 8}) {
      const auto summary = summary_of(shape_of("dualpipe-v", p, 4 * p, 2), {1, 1, 1});
      CHECK(summary.bubble_time == (p - 1) * (3 + 2 - 3));
    }
  }

  TEST_CASE("DualPipeV: 2 p + 1 chunks at most") {
    for (const int p : {2, 3, 4, 8}) {
      for (const int m : {2 * p, 5 * p}) {
        const auto summary = summary_of(shape_of("dualpipe-v", p, m, 2), {1, 1, 1});
        for (const double peak : summary.peak_activations) CHECK(2 * peak <= 2 * p + 1);
      }
    }
  }

  TEST_CASE("DualPipeV: two devices, written out") {
    const auto order = std::get<ComputeOrder>(make_order(shape_of("dualpipe-v", 2, 4, 2)));
    using enum Phase;
    CHECK(order.devices[1] == std::vector<ComputeStep>{{0, 0, Forward},
                                                       {1, 0, Forward},
                                                       {0, 1, Forward},
                                                       {1, 1, Forward},
                                                       {0, 2, Forward},
                                                       {1, 0, Backward},
                                                       {1, 0, WeightGradient, true},
                                                       {1, 2, Forward},
                                                       {0, 0, Backward, true},
                                                       {0, 0, WeightGradient, true},
                                                       {0, 3, Forward},
                                                       {1, 1, Backward, true},
                                                       {1, 1, WeightGradient, true},
                                                       {1, 3, Forward},
                                                       {0, 1, Backward, true},
                                                       {0, 1, WeightGradient, true},
                                                       {1, 2, Backward},
                                                       {1, 2, WeightGradient, true},
                                                       {0, 2, Backward},
                                                       {0, 2, WeightGradient, true},
                                                       {1, 3, Backward},
                                                       {0, 3, Backward},
                                                       {1, 3, WeightGradient},
                                                       {0, 3, WeightGradient}});
  }
}

}  // namespace
}  // namespace plansearch::testing::dualpipe_v_test
