// SPDX-License-Identifier: Apache-2.0
// Expected values: peaks at most p / 2 + 1 micro-batches of a device-stage (the paper's 1/2 of 1F1B
// plus what rounds up); spans of an independent script that repeats the pattern of zbv_greedy.py
// without its reordering. In chunks: 1F1B's bubble is 6 (p - 1).
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::v_half_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("V-Half: half the activations of 1F1B") {
    for (int p = 2; p <= 33; ++p) {
      for (const int m : {1, p, 2 * p + 1, 5 * p}) {
        const auto summary = summary_of(shape_of("v-half", p, m, 2), {1, 1, 1});
        for (const double peak : summary.peak_activations) REQUIRE(peak <= p / 2.0 + 1);
        REQUIRE(summary.span >= 6 * m);
      }
    }
  }

  TEST_CASE("V-Half: spans of equal pieces") {
    for (const auto& [p, bubble] :
         {std::tuple{2, 5}, {3, 7}, {4, 12}, {5, 14}, {6, 19}, {8, 26}, {12, 40}, {16, 54}}) {
      CHECK(summary_of(shape_of("v-half", p, 2 * p, 2), {1, 1, 1}).span == 12 * p + bubble);
      CHECK(summary_of(shape_of("v-half", p, 4 * p, 2), {1, 1, 1}).span == 24 * p + bubble);
    }
  }
}

}  // namespace
}  // namespace plansearch::testing::v_half_test
