// SPDX-License-Identifier: Apache-2.0
// Expected values: span bubble (p - 1)(F + B - 2 W) where it is not below zero, and spans and peaks
// of a simulation by an independent script.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing {
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

  TEST_CASE("ZB-H2 needs 2 p - 1 micro-batches") {
    const auto fault = fault_of(shape_of("zb-h2", 4, 6));
    REQUIRE(fault);
    CHECK(to_text(*find_schedule("zb-h2"), *fault) ==
          "zb-h2 takes at least 7 micro-batches, not 6");
    CHECK_FALSE(fault_of(shape_of("zb-h2", 4, 7)));
  }
}

}  // namespace
}  // namespace plansearch::testing
