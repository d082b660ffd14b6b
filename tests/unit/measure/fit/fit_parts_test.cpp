// SPDX-License-Identifier: Apache-2.0
// Factors of parts of a step: found where runs differ in them, one factor where they do not.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "evaluate/answer/site_population.hpp"
#include "measure/fit/fit_profile.hpp"

namespace plansearch {
namespace {

constexpr SitePopulation kSites{
    .sites = 20, .mean = 0.05, .mean_error = 0.02, .between = 0.15, .within = 0.05};

/// A run of so many seconds of kernels, tensor and data messages, which take these factors.
FitRun run_of(double compute, double tensor, double data, double slow_compute, double slow_tensor) {
  FitRun fit{.place = "run", .run = {}, .predicted = {}};
  fit.step.compute = Seconds(compute);
  fit.step.exposed[0] = Seconds(tensor);
  fit.step.exposed[1] = Seconds(data);
  fit.predicted = fit.step.total();
  const double measured = compute * slow_compute + tensor * slow_tensor + data * slow_compute;
  fit.run.step_time = Seconds(measured);
  fit.log = std::log(measured / fit.predicted.value());
  return fit;
}

std::vector<FitRun> runs_with(double slow_compute, double slow_tensor) {
  return {run_of(10.0, 0.1, 0.5, slow_compute, slow_tensor),
          run_of(9.0, 2.0, 0.5, slow_compute, slow_tensor),
          run_of(8.0, 4.0, 0.5, slow_compute, slow_tensor),
          run_of(9.5, 1.0, 0.5, slow_compute, slow_tensor),
          run_of(7.0, 5.0, 0.4, slow_compute, slow_tensor)};
}

const PartFit& part_of(const PartsFit& fit, std::string_view name) {
  const auto found = std::ranges::find(fit.parts, name, &PartFit::part);
  REQUIRE(found != fit.parts.end());
  return *found;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("slow tensor messages are separated from kernels where runs differ in them") {
    const PartsFit fit = fit_parts(runs_with(1.05, 1.5), kSites, 1.15);
    REQUIRE(fit.factors.size() == kStepParts);
    CHECK(fit.error < 0.5 * fit.error_of_one);
    CHECK(part_of(fit, "tensor").factor == doctest::Approx(1.5).epsilon(0.08));
    CHECK(part_of(fit, "compute").factor == doctest::Approx(1.05).epsilon(0.05));
    CHECK(part_of(fit, "tensor").separated);
    CHECK_FALSE(part_of(fit, "data").separated);  // the same share in all runs
    CHECK(part_of(fit, "tensor").most == doctest::Approx(5.0 / 12.4));
    // A site with these factors predicts the runs.
    SiteEffect site;
    site.factor = 1.15;
    site.parts = fit.factors;
    for (const FitRun& run : runs_with(1.05, 1.5))
      CHECK(factor_at(site, run.step) == doctest::Approx(std::exp(run.log)).epsilon(0.03));
  }

  TEST_CASE("runs that are all off by one factor have no factors of parts") {
    const PartsFit fit = fit_parts(runs_with(1.2, 1.2), kSites, 1.19);
    CHECK(fit.factors.empty());
    SiteEffect site;
    site.factor = 1.19;
    CHECK(factor_at(site, runs_with(1.0, 1.0).front().step) == 1.19);
  }
}

}  // namespace plansearch
