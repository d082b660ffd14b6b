// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/kernel_fit.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

namespace plansearch::held_out_test {
namespace {

/// Rows that depend on one factor, each off by its own error.
CurveProblem rows_with(std::vector<double> errors) {
  const std::size_t rows = errors.size();
  return {1, [rows](std::span<const double> at) { return std::vector<double>(rows, at[0]); },
          std::move(errors), 0.05, 0.5};
}

std::optional<HeldOut> of(const CurveProblem& problem) {
  std::vector<std::size_t> all(problem.measured.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return held_out(problem, all);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("rows that all say the same are predicted by the others") {
    const auto found = of(rows_with(std::vector<double>(20, 0.3)));
    REQUIRE(found);
    // 16 rows and a prior of half a one: 0.3 x 16 / 16.5, 0.0091 short.
    CHECK(found->error == doctest::Approx(0.3 * 0.5 / 16.5).epsilon(1e-3));
  }

  TEST_CASE("what is left has the quantiles of the rows' own errors") {
    std::vector<double> errors;
    for (int i = 0; i < 100; ++i) errors.push_back(0.1 * ((i * 37) % 100 - 49.5) / 49.5);
    const auto found = of(rows_with(errors));
    REQUIRE(found);
    CHECK(found->residual.p10 == doctest::Approx(-0.08).epsilon(0.05));
    CHECK(found->residual.p50 == doctest::Approx(0.0).epsilon(0.01));
    CHECK(found->residual.p90 == doctest::Approx(0.08).epsilon(0.05));
    CHECK(found->error == doctest::Approx(0.05).epsilon(0.05));
  }

  TEST_CASE("few rows, and very many, have no such error") {
    CHECK_FALSE(of(rows_with(std::vector<double>(9, 0.1))));
    CHECK(of(rows_with(std::vector<double>(10, 0.1))));
    CHECK_FALSE(of(rows_with(std::vector<double>(1001, 0.1))));
  }
}

}  // namespace plansearch::held_out_test
