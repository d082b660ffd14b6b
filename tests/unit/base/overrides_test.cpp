// SPDX-License-Identifier: Apache-2.0
#include "base/overrides.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "plansearch/error.hpp"

namespace plansearch::overrides_test {
namespace {

using Texts = std::vector<std::string>;

std::string refusal_of(const std::string& text) {
  try {
    static_cast<void>(override_combinations(text));
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("overrides: the first key names the file, the others the place") {
    const auto all = parse_overrides(
        "tiers.nvlink.bandwidth=225GB/s; framework.constants.host_launch=9 us; model.layers=4;"
        "hardware.price=2 USD/h; accelerator.memory = 70 GiB");
    REQUIRE(all.size() == 5);
    CHECK(all[0].file == OverriddenFile::Hardware);
    CHECK(all[0].path == Texts{"tiers", "nvlink", "bandwidth"});
    CHECK(all[0].value == "225GB/s");
    CHECK(all[0].typed == "--set tiers.nvlink.bandwidth=225GB/s");
    CHECK(all[1].file == OverriddenFile::Framework);
    CHECK(all[1].path == Texts{"constants", "host_launch"});
    CHECK(all[1].value == "9 us");
    CHECK(all[2].file == OverriddenFile::Model);
    CHECK(all[3].path == Texts{"price"});
    CHECK(all[4].path == Texts{"accelerator", "memory"});
    CHECK(all[4].value == "70 GiB");
    CHECK(overrides_of("a=1;model.b=2", OverriddenFile::Model).size() == 1);
  }

  TEST_CASE("overrides: without a value, without a key, twice") {
    CHECK(refusal_of("tiers") == "--set tiers: no value");
    CHECK(refusal_of("tiers=") == "--set tiers=: the value is empty");
    CHECK(refusal_of("tiers..bandwidth=1") == "--set tiers..bandwidth=1: a key is empty");
    CHECK(refusal_of("=1") == "--set =1: a key is empty");
    CHECK(refusal_of("a=1; hw.a=2") == "--set hw.a=2: set twice");
  }

  TEST_CASE("overrides: ranges double or have a step, lists are values, in every combination") {
    CHECK(override_combinations("a=100..400GB/s") == Texts{"a=100GB/s", "a=200GB/s", "a=400GB/s"});
    CHECK(override_combinations("a=100..300:100 us") == Texts{"a=100 us", "a=200 us", "a=300 us"});
    CHECK(override_combinations("a=100..350GB/s") == Texts{"a=100GB/s", "a=200GB/s", "a=350GB/s"});
    CHECK(override_combinations("a=1,2; b=x,y") ==
          Texts{"a=1; b=x", "a=1; b=y", "a=2; b=x", "a=2; b=y"});
    CHECK(override_combinations("a=[1, 2]") == Texts{"a=[1, 2]"});  // one list of the file
    CHECK(override_combinations("") == Texts{""});
  }

  TEST_CASE("overrides: what is not a range") {
    for (const char* text : {"a=4..1", "a=0..4", "a=x..4", "a=1us..4s", "a=1..4:0s", "a=1..",
                             "a=..", "a=1..4s:1s", "a=1..4:-1s"}) {
      CAPTURE(text);
      CHECK(refusal_of(text).find("is not a range") != std::string::npos);
    }
    CHECK(refusal_of("a=1..1000:1s").find("more than 64 values") != std::string::npos);
    CHECK(refusal_of("a=1..16:1; b=1..16:1").find("more than 64 combinations") !=
          std::string::npos);
  }
}

}  // namespace plansearch::overrides_test
