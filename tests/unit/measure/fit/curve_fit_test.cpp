// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/kernel_fit.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace plansearch::curve_fit_test {
namespace {

/// Every row depends on the one parameter alike; what is predicted is 1.
std::variant<CurveFit, CurveFitRefusal> one_factor(std::vector<double> logs) {
  const auto rows = logs.size();
  return fit_curve({1,
                    [rows](std::span<const double> at) { return std::vector<double>(rows, at[0]); },
                    std::move(logs), 0.1, 0.2});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("one factor on three rows moves by 3 / 3.5 of their mean") {
    // Mean 0.2: moved 0.857143 x 0.2 = 0.171429; left 0.028571 +- 0.1. Scatter: squares of
    // (-0.071429, 0.028571, 0.128571) sum to 0.022449, with 0.01: sqrt(0.032449 / 3) = 0.104.
    // Its ratio to the usual 0.1 makes the prior weigh 0.5 x 1.0816 from then on: 3 / 3.54082 x 0.2
    // = 0.169453, the scatter sqrt((3 x 0.030547^2 + 0.03) / 3) = 0.104562.
    const auto fit = std::get<CurveFit>(one_factor({0.1, 0.2, 0.3}));
    CHECK(fit.moved[0] == doctest::Approx(0.169453).epsilon(1e-5));
    CHECK(fit.scatter == doctest::Approx(0.104562).epsilon(1e-5));
    CHECK(fit.spread[0] == doctest::Approx(0.104562 / std::sqrt(3.54082)).epsilon(1e-5));
    CHECK(fit.error_before == doctest::Approx(0.2));
  }

  TEST_CASE("rows that scatter more move the factor less") {
    // Scatter about 0.35 (3.5 times the usual 0.1): the prior weighs some 6 rows, not half a one.
    const auto wide = std::get<CurveFit>(one_factor({-0.3, -0.1, 0.1, 0.3, 0.5, 0.7}));
    CHECK(wide.moved[0] > 0.2 * 6.0 / 14.0);
    CHECK(wide.moved[0] < 0.2 * 6.0 / 11.0);
  }

  TEST_CASE("an outlier is named, two rows are refused") {
    const auto fit = std::get<CurveFit>(one_factor({0.1, 0.12, 0.14, 0.12 + std::log(3.0)}));
    CHECK(fit.outliers == std::vector<std::size_t>{3});
    CHECK(fit.moved[0] == doctest::Approx(0.12 * 3.0 / 3.5).epsilon(1e-3));
    CHECK(std::get<CurveFitRefusal>(one_factor({0.1, 0.1})).reason == "2 rows: a fit needs 3");
    CHECK(std::get<CurveFitRefusal>(one_factor({0.1, 0.1, 2.0})).reason ==
          "2 rows that agree: a fit needs 3");
  }

  TEST_CASE("rows whose curve is no better known than what sites differ by are refused") {
    const auto refused = std::get<CurveFitRefusal>(one_factor({-0.5, 0.0, 0.5}));
    CHECK(refused.reason.find("no better than what sites differ by (20 %)") != std::string::npos);
  }

  TEST_CASE("a parameter on which no row depends stays, two that rows tell apart are found") {
    // Times a e^x + b e^y for (a, b) = (1, 0), (0, 1) four times each, x = ln 1.2, y = ln 0.8, and
    // a third parameter without rows. Each shrinks by 4 / 4.5 on its own.
    const CurveProblem problem{
        3,
        [](std::span<const double> at) {
          return std::vector<double>{at[0], at[0], at[0], at[0], at[1], at[1], at[1], at[1]};
        },
        {0.18232, 0.18232, 0.18232, 0.18232, -0.22314, -0.22314, -0.22314, -0.22314},
        0.1,
        0.2};
    const auto fit = std::get<CurveFit>(fit_curve(problem));
    CHECK(fit.moved[0] == doctest::Approx(0.18232 * 4.0 / 4.5).epsilon(1e-3));
    CHECK(fit.moved[1] == doctest::Approx(-0.22314 * 4.0 / 4.5).epsilon(1e-3));
    CHECK(fit.moved[2] == doctest::Approx(0.0));
    CHECK(fit.spread[2] == doctest::Approx(fit.scatter / std::sqrt(0.5)));
  }
}

}  // namespace plansearch::curve_fit_test
