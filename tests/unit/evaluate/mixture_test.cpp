// SPDX-License-Identifier: Apache-2.0
#include "evaluate/answer/open_switches.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace plansearch::mixture_test {

TEST_SUITE("unit") {
  TEST_CASE("one part has its own quantiles") {
    // The normal quantile of 0.9 is 1.28155.
    const std::vector<MixturePart> one{{2.0, 0.1, 0.2, 5.0}};
    CHECK(mixture_quantile(one, 0.5) == doctest::Approx(2.0));
    CHECK(mixture_quantile(one, 0.1) == doctest::Approx(2.0 * std::exp(-0.128155)).epsilon(1e-5));
    CHECK(mixture_quantile(one, 0.9) == doctest::Approx(2.0 * std::exp(0.256310)).epsilon(1e-5));
  }

  TEST_CASE("parts far apart: quantiles are those of the part that holds the share") {
    // A tenth of all runs is the slower half of the second part, whose odds are a fifth: its
    // median.
    const std::vector<MixturePart> two{{1.0, 0.01, 0.01, 0.8}, {10.0, 0.01, 0.01, 0.2}};
    CHECK(mixture_quantile(two, 0.9) == doctest::Approx(10.0).epsilon(1e-6));
    CHECK(mixture_quantile(two, 0.4) == doctest::Approx(1.0).epsilon(1e-6));
  }

  TEST_CASE("parts that are certain jump") {
    const std::vector<MixturePart> certain{{1.0, 0.0, 0.0, 1.0}, {2.0, 0.0, 0.0, 1.0}};
    CHECK(mixture_quantile(certain, 0.3) == doctest::Approx(1.0));
    CHECK(mixture_quantile(certain, 0.7) == doctest::Approx(2.0));
  }
}

}  // namespace plansearch::mixture_test
