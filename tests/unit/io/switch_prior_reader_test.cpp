// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>

#include "io/hardware/profile_reader.hpp"
#include "plansearch/error.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::switch_prior_reader_test {
namespace {

SwitchPriors priors_of(const std::string& text) {
  const test::TemporaryDirectory folder;
  return io::read_switch_priors(
      folder.write("priors.yaml", "schema: plansearch/switch-priors/v1\n" + text));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the shipped counts: shares of a framework add up to one") {
    const SwitchPriors priors = io::read_switch_priors(
        std::filesystem::path(PLANSEARCH_SOURCE_DIR) / "validation" / "switch_priors.yaml");
    CHECK(priors.as_assumed > 0.5);
    CHECK(priors.as_assumed < 1.0);
    for (const char* framework : {"megatron", "fsdp", "nobody"}) {
      double all = 0.0;
      for (const int level : {0, 1, 2}) {
        all += prior_share(priors, Degree::Recompute, framework, 2026, level);
      }
      CHECK(all == doctest::Approx(1.0).epsilon(1e-9));
    }
  }

  TEST_CASE("counts of unknown switches, values and shares are refused") {
    const std::string entry =
        "as_assumed: 0.5\npriors:\n  - {switch: recompute, framework: f, year: 2026, source: s, "
        "runs: {full: 2}}\n";
    CHECK(priors_of(entry).counts.front().runs.front().second == 2);
    const auto changed = [&](const std::string& from, const std::string& to) {
      std::string text = entry;
      return text.replace(text.find(from), from.size(), to);
    };
    CHECK_THROWS_AS(priors_of(changed("recompute", "attention")), InputError);
    CHECK_THROWS_AS(priors_of(changed("full", "half")), InputError);
    CHECK_THROWS_AS(priors_of(changed("0.5", "1.5")), InputError);
    CHECK_THROWS_AS(priors_of(changed("full: 2", "full: 0")), InputError);
    CHECK_THROWS_AS(priors_of(changed("2026", "26")), InputError);
  }
}

}  // namespace plansearch::switch_prior_reader_test
