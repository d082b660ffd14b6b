// SPDX-License-Identifier: Apache-2.0
// Expected values: bubble (p - 1)(F + B) of a chunk, all micro-batches kept; m at least p.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::breadth_first_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("breadth-first has the bubble of interleaving and the memory of GPipe") {
    for (const int p : {2, 4, 8}) {
      for (const int v : {2, 3}) {
        const auto summary = summary_of(shape_of("breadth-first", p, 2 * p, v), {10, 20, 0});
        CHECK(summary.makespan == (2 * p * v + p - 1) * 30);
        CHECK(summary.peak_activations.front() == 2 * p);
        CHECK(summary.peak_activations.back() == 2 * p);
      }
    }
  }
}

}  // namespace
}  // namespace plansearch::testing::breadth_first_test
