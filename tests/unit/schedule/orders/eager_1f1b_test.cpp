// SPDX-License-Identifier: Apache-2.0
// Expected values: (m + p - 1)(F + B) + 2 c (p - 1) and peaks min(m, 2 (p - r) - 1), confirmed by a
// simulation by an independent script.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::eager_1f1b_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("eager 1F1B hides all transfers but those of the first and last micro-batch") {
    for (const int p : {2, 4, 8}) {
      for (const int m : {2 * p, 4 * p}) {
        for (const Ticks c : {0, 3, 10}) {
          const auto summary = summary_of(shape_of("eager-1f1b", p, m), {10, 20, 0}, c);
          CHECK(summary.makespan == (m + p - 1) * 30 + 2 * c * (p - 1));
        }
      }
    }
  }

  TEST_CASE("eager 1F1B keeps twice as much as 1F1B") {
    CHECK(summary_of(shape_of("eager-1f1b", 4, 9), {1, 2, 0}).peak_activations ==
          std::vector<double>{7, 5, 3, 1});
    CHECK(summary_of(shape_of("eager-1f1b", 4, 3), {1, 2, 0}).peak_activations ==
          std::vector<double>{3, 3, 3, 1});
  }
}

}  // namespace
}  // namespace plansearch::testing::eager_1f1b_test
