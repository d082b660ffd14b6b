// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace plansearch::statistics_test {

TEST_SUITE("unit") {
  TEST_CASE("quantiles lie on lines between order statistics") {
    const std::vector<double> values{1, 2, 4, 8};
    // Places 0.5, 1.5 and 2.7 of 0 .. 3.
    CHECK(quantile(values, 1.0 / 6.0) == doctest::Approx(1.5));
    CHECK(quantile(values, 0.5) == doctest::Approx(3.0));
    CHECK(quantile(values, 0.9) == doctest::Approx(6.8));
    CHECK(quantile(values, 1.0) == doctest::Approx(8.0));
    CHECK(median({8, 1, 4}) == doctest::Approx(4.0));
    CHECK(median({}) == 0.0);
    CHECK(mean(values) == doctest::Approx(3.75));
    CHECK(mean({}) == 0.0);
  }

  TEST_CASE("scatter is the median distance from the median, as a standard deviation") {
    const Scatter scatter = scatter_of({1, 2, 3, 5, 100});
    CHECK(scatter.middle == doctest::Approx(3.0));
    CHECK(scatter.distances == std::vector<double>{2, 1, 0, 2, 97});
    CHECK(scatter.deviation == doctest::Approx(1.4826 * 2.0));
  }

  TEST_CASE("the normal distribution function") {
    // Tables of the standard normal distribution.
    CHECK(normal_below(0.0) == doctest::Approx(0.5));
    CHECK(normal_below(1.0) == doctest::Approx(0.841344746));
    CHECK(normal_below(-1.959963985) == doctest::Approx(0.025));
    CHECK(normal_below(2.0, 4.0) == doctest::Approx(0.691462461));
    CHECK(deviations_with(0.1) == doctest::Approx(1.281551566));
  }
}

}  // namespace plansearch::statistics_test
