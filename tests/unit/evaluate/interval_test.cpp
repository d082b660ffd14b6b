// SPDX-License-Identifier: Apache-2.0
#include "plansearch/evaluate/interval.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace plansearch {

TEST_SUITE("unit") {
  TEST_CASE("a tenth of log-normal errors lies below p10, a tenth above p90") {
    // The normal quantile of 0.9 is 1.28155: exp(-0.128155) = 0.87972, exp(0.128155) = 1.13673.
    const RelativeInterval interval = relative_interval(0.1);
    CHECK(interval.p10 == doctest::Approx(0.87972).epsilon(1e-5));
    CHECK(interval.p90 == doctest::Approx(1.13673).epsilon(1e-5));
    std::mt19937 engine(3);
    std::normal_distribution<double> normal(0.0, 0.1);
    int below = 0, above = 0;
    for (int i = 0; i < 100'000; ++i) {
      const double error = std::exp(normal(engine));
      below += error < interval.p10;
      above += error > interval.p90;
    }
    CHECK(below == doctest::Approx(10'000).epsilon(0.05));
    CHECK(above == doctest::Approx(10'000).epsilon(0.05));
  }

  TEST_CASE("no error, no interval") {
    const RelativeInterval interval = relative_interval(0.0);
    CHECK(interval.p10 == 1.0);
    CHECK(interval.p90 == 1.0);
  }
}

}  // namespace plansearch
