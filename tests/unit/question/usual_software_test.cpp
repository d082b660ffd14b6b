// SPDX-License-Identifier: Apache-2.0
#include "question/usual_software.hpp"

#include <doctest/doctest.h>

#include <set>

#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {
namespace {

Framework on(const std::string& framework, std::string_view accelerator) {
  const ShippedData data = shipped_data();
  const ChipSoftwareTable chips = chip_software(data);
  return usual_framework(framework, software_of(chips, accelerator),
                         [&](std::string_view name) { return data.framework(name); });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the newest chips run the newest release and its attention") {
    CHECK(on("megatron", "b200-sxm-180gb").name == "megatron-2026");
    CHECK(on("megatron", "h100-sxm5-80gb").name == "megatron");
    CHECK(on("megatron", "no such chip").name == "megatron");
    CHECK(on("fsdp", "h100-sxm5-80gb").attention_kernel == "flash2");
    CHECK(on("fsdp", "gb200-186gb").attention_kernel == "flash");
  }

  TEST_CASE("a release that is named is not replaced") {
    CHECK(on("megatron-2024", "b200-sxm-180gb").name == "megatron-2024");
  }

  TEST_CASE("NAME+ is the software that a chip runs, with every plan of the widest framework") {
    const Framework wider = on("megatron+", "b200-sxm-180gb");
    const Framework own = on("megatron", "b200-sxm-180gb");
    const Framework widest = shipped_data().framework("any");
    CHECK(wider.name == "megatron-2026+");
    CHECK(wider.rules == widest.rules);
    CHECK(wider.schedules == widest.schedules);
    CHECK_FALSE(wider.has_program);
    CHECK(wider.attention_kernel == own.attention_kernel);
    CHECK(wider.overlap == own.overlap);
    CHECK_THROWS_AS((void)on("no-such-framework+", "h100-sxm5-80gb"), InputError);
  }

  TEST_CASE("every entry of the shipped table names chips, frameworks and releases that ship") {
    const ShippedData data = shipped_data();
    std::set<std::string> seen;
    for (const ChipSoftware& chip : chip_software(data)) {
      for (const std::string& name : chip.accelerators) {
        CHECK_MESSAGE(data.accelerator(name).name == name, name);
        CHECK_MESSAGE(seen.insert(name).second, name);
      }
      if (chip.framework) CHECK(data.framework(*chip.framework).name == *chip.framework);
      for (const auto& [framework, release] : chip.releases) {
        CHECK(data.framework(framework).name == framework);
        CHECK(data.framework(release).name == release);
      }
    }
  }
}

}  // namespace plansearch
