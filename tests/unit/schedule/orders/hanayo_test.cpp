// SPDX-License-Identifier: Apache-2.0
// Expected values: bubble (p - 1)(F + B) / (2 W) of a device-stage for F = B, that is 2 (p - 1)
// pieces, for any number of waves W; a simulation by an independent script gives the same.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::hanayo_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("Hanayo: the bubble shrinks with the number of waves") {
    for (const int p : {4, 8}) {
      for (const int waves : {1, 2, 4}) {
        for (const int m : {p, 3 * p}) {
          const auto summary = summary_of(shape_of("hanayo", p, m, 2 * waves), {1, 1, 0});
          CHECK(summary.makespan == 2 * m * 2 * waves + 2 * (p - 1));
          for (const double peak : summary.peak_activations) CHECK(peak <= p);
        }
      }
    }
  }

  TEST_CASE("Hanayo: two stages, one wave, written out") {
    const auto order = std::get<ComputeOrder>(make_order(shape_of("hanayo", 2, 1, 2)));
    using enum Phase;
    CHECK(order.devices[0] ==
          std::vector<ComputeStep>{
              {0, 0, Forward}, {1, 0, Forward}, {1, 0, Backward}, {0, 0, Backward}});
    CHECK(order.devices[1] ==
          std::vector<ComputeStep>{
              {0, 0, Forward}, {1, 0, Forward}, {1, 0, Backward}, {0, 0, Backward}});
  }

  TEST_CASE("Hanayo takes pairs of chunks") {
    CHECK(to_text(*find_schedule("hanayo"), *fault_of(shape_of("hanayo", 4, 4, 3))) ==
          "hanayo takes a multiple of 2 chunks per stage, not 3");
  }
}

}  // namespace
}  // namespace plansearch::testing::hanayo_test
