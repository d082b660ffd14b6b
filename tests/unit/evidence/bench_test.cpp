// SPDX-License-Identifier: Apache-2.0
#include "evidence/bench/bench.hpp"

#include <doctest/doctest.h>

namespace plansearch::bench_test {

TEST_CASE("the search signature does not depend on threads") {
  const BenchReport one = run_searches(1);
  CHECK(one.searches.size() == 5);
  CHECK(one.signature != 0);
  CHECK(one.signature == run_searches(2).signature);
}

}  // namespace plansearch::bench_test
