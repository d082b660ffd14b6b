// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/error_summary.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace plansearch::error_summary_test {

TEST_SUITE("unit") {
  TEST_CASE("error summaries") {
    // Absolute errors 1, 2, 3, 4, 10 %: mean 4, median 3, p90 between 4 and 10: 4 + 0.6 * 6 = 7.6.
    const std::vector<double> errors{0.01, -0.02, 0.03, -0.04, 0.10};
    const ErrorSummary summary = summarise_errors(errors);
    CHECK(summary.rows == 5);
    CHECK(summary.mean == doctest::Approx(0.04));
    CHECK(summary.median == doctest::Approx(0.03));
    CHECK(summary.p90 == doctest::Approx(0.076));
    CHECK(summary.bias == doctest::Approx(0.016));
    CHECK(summarise_errors({}).rows == 0);
  }

  TEST_CASE("tau-b counts ties on either side") {
    const std::vector<double> a{1, 2, 3, 4};
    CHECK(kendall_tau(a, a).value() == doctest::Approx(1.0));
    CHECK(kendall_tau(a, std::vector<double>{4, 3, 2, 1}).value() == doctest::Approx(-1.0));
    // One swapped pair of six: (5 - 1) / 6.
    CHECK(kendall_tau(a, std::vector<double>{1, 3, 2, 4}).value() == doctest::Approx(4.0 / 6.0));
    // One tie on the right: 5 concordant of sqrt(6 * 5).
    CHECK(kendall_tau(a, std::vector<double>{1, 2, 2, 3}) ==
          doctest::Approx(5.0 / std::sqrt(30.0)));
    CHECK(!kendall_tau(a, std::vector<double>{1, 1, 1, 1}).has_value());
  }
}

}  // namespace plansearch::error_summary_test
