// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/site_fit.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "measure/fit/fit_profile.hpp"
#include "unit/evidence/run_tables.hpp"

namespace plansearch::site_fit_test {
namespace {

constexpr SitePopulation kPopulation{
    .sites = 9, .mean = 0.1, .mean_error = 0.03, .between = 0.2, .within = 0.1};

std::variant<SiteFit, SiteFitRefusal> fit(const std::vector<double>& logs) {
  return fit_site(logs, kPopulation);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("three runs weigh 3 / 3.5 against the population") {
    // Mean 0.4; (0.01 + 0 + 0.01 + 0.01) / 3 = 0.01 with one run of usual scatter.
    // ln factor = 0.857143 x 0.4 + 0.142857 x 0.1; spread = sqrt(0.857143 x 0.01 / 3).
    const auto fitted = std::get<SiteFit>(fit({0.3, 0.4, 0.5}));
    CHECK(fitted.effect.factor == doctest::Approx(std::exp(0.3571429)));
    CHECK(fitted.effect.spread == doctest::Approx(0.0534522));
    CHECK(fitted.effect.scatter == doctest::Approx(0.1));
    CHECK(fitted.outliers.empty());
  }

  TEST_CASE("a run three times as slow is named and does not count") {
    const auto fitted = std::get<SiteFit>(fit({0.3, 0.4, 0.5, 0.4 + std::log(3.0)}));
    CHECK(fitted.outliers == std::vector<std::size_t>{3});
    CHECK(fitted.effect.factor == doctest::Approx(std::exp(0.3571429)));
  }

  TEST_CASE("a run four deviations off counts") {
    // Median 0.425, of distances 0.075: 0.111 as a deviation; 0.85 is 3.8 of them away.
    CHECK(std::get<SiteFit>(fit({0.3, 0.35, 0.4, 0.45, 0.5, 0.85})).outliers.empty());
  }

  TEST_CASE("of three runs two that agree are too few") {
    const auto refused = std::get<SiteFitRefusal>(fit({0.30, 0.32, 0.30 + std::log(3.0)}));
    CHECK(refused.reason == "only 2 of 3 runs agree: a factor needs 3");
    CHECK(refused.outliers == std::vector<std::size_t>{2});
    CHECK(std::get<SiteFitRefusal>(fit({0.3, 0.3})).reason == "2 runs: a factor needs 3");
  }

  TEST_CASE("a factor less certain than what sites differ by is refused") {
    // sqrt(0.857143 x (0.25 + 0.25 + 0.01) / 3 / 3) = 0.2204 against 0.2.
    const auto refused = std::get<SiteFitRefusal>(fit({0.0, 0.5, 1.0}));
    CHECK(refused.reason.find("no better than that of a site without runs (20 %)") !=
          std::string::npos);
  }

  TEST_CASE("the column that tells runs apart is named") {
    std::vector<FitRun> runs;
    for (const auto& [tp, pp, log] :
         {std::tuple{"1", "1", 0.1}, {"1", "2", 0.1}, {"2", "1", 0.5}, {"2", "2", 0.5}}) {
      runs.push_back({"x", test::run_of({{"tp", tp}, {"pp", pp}, {"dp", ""}}), Seconds(1.0), log});
    }
    // e^0.1 = 1.105, e^0.5 = 1.649.
    CHECK(separating_column(runs) == "column tp separates the runs: x1.11 at tp 1, x1.65 at tp 2");
    for (FitRun& run : runs) run.log = 0.1;
    CHECK(separating_column(runs).empty());
  }
}

}  // namespace plansearch::site_fit_test
