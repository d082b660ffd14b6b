// SPDX-License-Identifier: Apache-2.0
// Expected values: peaks at most (p + 4) / 3 micro-batches of a device-stage (the paper's 1/3 of
// 1F1B plus what rounds up); spans of an independent script that repeats the pattern of
// zbv_greedy.py without its reordering. In chunks: 1F1B's bubble is 6 (p - 1).
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::v_min_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("V-Min: a third of the activations of 1F1B") {
    for (int p = 2; p <= 33; ++p) {
      for (const int m : {1, p, 2 * p + 1, 5 * p}) {
        const auto summary = summary_of(shape_of("v-min", p, m, 2), {1, 1, 1});
        for (const double peak : summary.peak_activations) REQUIRE(peak <= (p + 4) / 3.0);
        REQUIRE(summary.span >= 6 * m);
      }
    }
  }

  TEST_CASE("V-Min: spans of equal pieces") {
    for (const auto& [p, bubble] :
         {std::tuple{2, 3}, {3, 9}, {4, 11}, {5, 15}, {6, 21}, {8, 27}, {12, 45}, {16, 59}}) {
      CHECK(summary_of(shape_of("v-min", p, 2 * p, 2), {1, 1, 1}).span == 12 * p + bubble);
      CHECK(summary_of(shape_of("v-min", p, 4 * p, 2), {1, 1, 1}).span == 24 * p + bubble);
    }
  }
}

}  // namespace
}  // namespace plansearch::testing::v_min_test
