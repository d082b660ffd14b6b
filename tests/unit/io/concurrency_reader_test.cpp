// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "plansearch/error.hpp"
#include "unit/io/chip_file.hpp"

namespace plansearch::concurrency_reader_test {

namespace {

double share(const Accelerator& chip, Activity messages) {
  return chip.concurrency.multiprocessor_share[static_cast<std::size_t>(messages)];
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("concurrency: chips of which nothing is known take the default, and say so") {
    const Accelerator chip = test::chip_with("");
    // 20 of 100 multiprocessors (defaults.yaml).
    CHECK(share(chip, Activity::Local) == doctest::Approx(0.2));
    CHECK(share(chip, Activity::Fabric) == doctest::Approx(0.2));
    CHECK(chip.concurrency.path_share.of(Activity::FromHost, Activity::ToHost) > 0.0);
    CHECK(chip.concurrency.path_share.of(Activity::Compute, Activity::ToHost) == 0.0);
    CHECK(chip.provenance.at("concurrency.multiprocessors.local").evidence == Evidence::Assumed);
    CHECK(chip.provenance.at("concurrency.paths.from_host.to_host").evidence == Evidence::Assumed);
    CHECK_FALSE(chip.provenance.contains("concurrency.paths.compute.to_host"));
  }

  TEST_CASE("concurrency: what a file gives holds, whichever of a pair comes first") {
    const Accelerator chip = test::chip_with(
        "concurrency:\n  multiprocessors: {local: 0.3}\n"
        "  paths: {to_host: {from_host: 0.5, compute: 1}}\n"
        "provenance:\n  - {fields: [concurrency], evidence: measured, source: \"a bench\"}\n");
    CHECK(share(chip, Activity::Local) == 0.3);
    CHECK(share(chip, Activity::Fabric) == doctest::Approx(0.2));
    CHECK(chip.concurrency.path_share.of(Activity::FromHost, Activity::ToHost) == 0.5);
    CHECK(chip.concurrency.path_share.of(Activity::ToHost, Activity::FromHost) == 0.5);
    CHECK(chip.concurrency.path_share.of(Activity::Compute, Activity::ToHost) == 1.0);
    CHECK(chip.provenance.at("concurrency.multiprocessors.local").source == "a bench");
    CHECK(chip.provenance.at("concurrency.paths.from_host.to_host").evidence == Evidence::Measured);
    CHECK(chip.provenance.at("concurrency.multiprocessors.fabric").evidence == Evidence::Assumed);
  }

  TEST_CASE("concurrency: another accelerator's, assumed") {
    const Accelerator donor = io::load_accelerator("a100-sxm4-40gb", test::shipped_hardware());
    const Accelerator chip = test::chip_with("concurrency: {like: a100-sxm4-40gb}\n");
    CHECK(chip.concurrency == donor.concurrency);
    CHECK(chip.provenance.at("concurrency.multiprocessors.local").evidence == Evidence::Assumed);
    CHECK(donor.provenance.at("concurrency.multiprocessors.local").evidence == Evidence::Measured);
    CHECK(io::load_accelerator("a100-sxm4-80gb", test::shipped_hardware()).concurrency ==
          donor.concurrency);
  }

  TEST_CASE("concurrency: what cannot be is refused with its place") {
    const auto refused = [](const std::string& section, const std::string& part) {
      CAPTURE(section);
      try {
        (void)test::chip_with("concurrency: " + section + "\n");
        FAIL_CHECK("not refused");
      } catch (const InputError& error) {
        CAPTURE(error.what());
        CHECK(std::string(error.what()).find(part) != std::string::npos);
        CHECK(error.where().line == 7);
      }
    };
    refused("{multiprocessors: {local: 0.5, fabric: 0.5}}", "together take 1");
    refused("{multiprocessors: {local: 1.5}}", "outside 0 .. 0.9");
    refused("{paths: {from_host: {to_host: 2}}}", "outside 0 .. 1");
    refused("{paths: {from_host: {from_host: 1}}}", "have no path");
    refused("{paths: {compute: {local: 1}}}", "have no path");
    refused("{paths: {disk: {to_host: 1}}}", "unknown activity 'disk'");
    refused("{paths: {from_host: {to_host: 1}, to_host: {from_host: 1}}}", "given twice");
    refused("{path: {}}", "path");
  }
}

}  // namespace plansearch::concurrency_reader_test
