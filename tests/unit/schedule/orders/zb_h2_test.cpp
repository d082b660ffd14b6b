// SPDX-License-Identifier: Apache-2.0
// Expected values: span bubble (p - 1)(F + B - 2 W) where it is not below zero, and spans and peaks
// of a simulation by an independent script.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::zb_h2_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("ZB-H2: equal pieces leave no bubble on any device") {
    CHECK(summary_of(shape_of("zb-h2", 4, 8), {1, 1, 1}).span == 24);
    CHECK(summary_of(shape_of("zb-h2", 4, 12), {1, 1, 1}).span == 36);
    CHECK(summary_of(shape_of("zb-h2", 8, 24), {1, 1, 1}).span == 72);
  }

  TEST_CASE("ZB-H2: bubbles of unequal pieces") {
    for (const auto& [t, four, eight] : {std::tuple{Triple{2, 3, 1}, 9, 21},
                                         {Triple{10, 12, 8}, 18, 42},
                                         {Triple{3, 4, 2}, 9, 21}}) {
      CHECK(summary_of(shape_of("zb-h2", 4, 8), t).span == 8 * t.work() + four);
      CHECK(summary_of(shape_of("zb-h2", 8, 24), t).span == 24 * t.work() + eight);
    }
  }

  TEST_CASE("ZB-H2: every device keeps 2 p - 1 micro-batches") {
    const auto peaks = summary_of(shape_of("zb-h2", 4, 9), {1, 1, 1}).peak_activations;
    CHECK(peaks == std::vector<double>{7, 7, 7, 7});
  }

  // Published runs have 24 micro-batches on 16 stages; makespans and spans of an independent
  // script.
  TEST_CASE("ZB-H2 of fewer than 2 p - 1 micro-batches fills what it can") {
    for (const auto& [p, m, makespan, span] : {std::tuple{4, 4, 16, 15},
                                               {4, 5, 19, 17},
                                               {4, 6, 21, 19},
                                               {8, 8, 34, 31},
                                               {8, 14, 49, 43}}) {
      const auto found = summary_of(shape_of("zb-h2", p, m), {1, 1, 1});
      CHECK(found.makespan == makespan);
      CHECK(found.span == span);
    }
  }
}

}  // namespace
}  // namespace plansearch::testing::zb_h2_test
