// SPDX-License-Identifier: Apache-2.0
#include "evaluate/answer/site_population.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "plansearch/error.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch::site_population_test {
namespace {

MeasuredSite site(const char* name, const char* laboratory, double log_factor) {
  return {.name = name,
          .laboratory = laboratory,
          .sources = {name},
          .rows = 4,
          .factor = std::exp(log_factor),
          .spread = 0.2};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a typical site has the mean of the sites and what they differ by") {
    // Rows of usual scatter 0.2: every row has the variance 0.04, every mean of four 0.01.
    // 2 x 0.2^2 / (between^2 + 0.01) = 1: between^2 = 0.07. Weights 1 / 0.08 = 12.5 each, so the
    // mean is known to sqrt(1 / 25) = 0.2.
    const SiteTable sites{site("a", "A", 0.0), site("b", "B", 0.4)};
    const SitePopulation population = population_of(sites);
    CHECK(population.mean == doctest::Approx(0.2));
    CHECK(population.between == doctest::Approx(std::sqrt(0.07)));
    CHECK(population.mean_error == doctest::Approx(0.2));
    CHECK(population.within == doctest::Approx(0.2));
    const SiteEffect typical = typical_site(population);
    CHECK(typical.factor == doctest::Approx(1.221403));
    // People who tune nothing differ by 0.1 beside that.
    CHECK(typical.spread == doctest::Approx(std::sqrt(0.07 + 0.04 + 0.01)));
  }

  TEST_CASE("a measured site is shrunk towards the population by half a run") {
    // 4 / 4.5 of 0.4 and 0.5 / 4.5 of 0.2: 0.377778; sqrt(0.888889 x 0.01) is not known of it.
    const SiteTable sites{site("a", "A", 0.0), site("b", "B", 0.4)};
    const SiteEffect own = own_site(sites[1], population_of(sites));
    CHECK(own.factor == doctest::Approx(std::exp(0.3777778)));
    CHECK(own.spread == doctest::Approx(std::sqrt(0.00888889)));
    CHECK(own.scatter == doctest::Approx(0.2));
  }

  TEST_CASE("sites of a laboratory that is left out do not count") {
    const SiteTable sites{site("a", "A", 0.0), site("b", "B", 0.4), site("c", "C", 0.9),
                          site("c2", "C", 0.9)};
    const SitePopulation without = population_of(sites, "C");
    CHECK(without.sites == 2);
    CHECK(without.mean == doctest::Approx(0.2));
    CHECK(population_of(sites).mean > 0.4);
  }

  TEST_CASE("without sites everything is at factor 1") {
    const SiteEffect typical = typical_site(population_of({}));
    CHECK(typical.factor == 1.0);
    CHECK(typical.spread == 0.0);
  }

  TEST_CASE("rows are of the first site whose source and profile hold them") {
    SiteTable sites{site("paper", "A", 0.0), site("other", "B", 0.4)};
    sites[0].hardware = {"dgx-h100"};
    CHECK(site_of(sites, "the paper, Table 5", "DGX_H100") == &sites[0]);
    CHECK(site_of(sites, "the paper, Table 5", "selene") == nullptr);
    CHECK(site_of(sites, "another paper and the other", "selene") == &sites[1]);
    CHECK(site_of(sites, "", "dgx-h100") == nullptr);
  }

  TEST_CASE("a site is named, typical or tuned") {
    const SiteTable sites{site("alpha-lab", "A", 0.0), site("b", "B", 0.4)};
    CHECK(find_site(sites, "Alpha_Lab").name == "alpha-lab");
    CHECK(find_site(sites, "typical") == typical_site(population_of(sites)));
    CHECK(find_site(sites, "tuned").factor == 1.0);
    CHECK_THROWS_WITH_AS(static_cast<void>(find_site(sites, "alpha-lap")),
                         "unknown site 'alpha-lap'", InputError);
  }

  TEST_CASE("vendors and laboratories are typical of their own kind") {
    SiteTable sites{site("a", "A", 0.0), site("b", "B", 0.1), site("c", "C", 0.3),
                    site("d", "D", 0.5)};
    sites[0].kind = sites[1].kind = SiteKind::Vendor;
    const SiteEffect vendor = find_site(sites, "vendor");
    const SiteEffect laboratory = find_site(sites, "laboratory");
    CHECK(vendor.factor == doctest::Approx(std::exp(0.05)));
    CHECK(laboratory.factor == doctest::Approx(std::exp(0.4)));
    CHECK(vendor.spread < laboratory.spread);
    CHECK(vendor.basis.find("2 measured sites of vendors") != std::string::npos);
  }

  TEST_CASE("a site is a part of the step of its own") {
    Estimate estimate;
    estimate.step.compute = Seconds(3.0);
    estimate.step.bubble = Seconds(1.0);
    CHECK(at_factor(estimate, 1.25).step.site.value() == doctest::Approx(1.0));
    CHECK(at_factor(estimate, 1.25).step.total().value() == doctest::Approx(5.0));
    CHECK(at_factor(estimate, 0.75).step.site.value() == doctest::Approx(-1.0));
  }
}

}  // namespace plansearch::site_population_test
