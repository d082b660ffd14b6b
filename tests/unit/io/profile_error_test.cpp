// SPDX-License-Identifier: Apache-2.0
// What a user sees who makes a mistake in a profile.
#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "io/hardware/profile_reader.hpp"
#include "plansearch/error.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::profile_error_test {
using plansearch::test::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

const std::array<fs::path, 1> kShipped = {fs::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles"};

const std::string kProfile = R"(schema: plansearch/profile/v1
name: mine
accelerator: a100-sxm4-80gb
accelerators_per_node: 8
tiers:
  - name: nvlink
    kind: switch
    size: 8
    bandwidth: 300 GB/s
  - name: network
    kind: fat-tree
    size: 64
    bandwidth: 100 GB/s
    shared_by: 4
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// The error of a profile with one change, without the directory it lies in.
std::string error_after(const std::string& from, const std::string& to) {
  const TemporaryDirectory dir;
  const fs::path file = dir.write("mine.yaml", replaced(kProfile, from, to));
  try {
    (void)io::load_cluster(file.string(), kShipped);
  } catch (const InputError& e) {
    std::string text = e.formatted();
    const std::string prefix = dir.path().string() + "/";
    while (text.find(prefix) != std::string::npos) text.erase(text.find(prefix), prefix.size());
    return text;
  }
  return "no error";
}

std::string accelerator_error(const std::string& text) {
  const TemporaryDirectory dir;
  dir.write("accelerators/chip.yaml", "schema: plansearch/accelerator/v1\nname: chip\n" + text);
  dir.write("mine.yaml", replaced(kProfile, "a100-sxm4-80gb", "chip"));
  try {
    (void)io::load_cluster((dir.path() / "mine.yaml").string(), kShipped);
  } catch (const InputError& e) {
    std::string shown = e.formatted();
    return shown.substr(
        shown.find("accelerators/") == std::string::npos ? 0 : shown.find("accelerators/"));
  }
  return "no error";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("profile errors: the unchanged profile loads, with defaults marked as assumed") {
    const TemporaryDirectory dir;
    const Cluster c = io::load_cluster(dir.write("mine.yaml", kProfile).string(), kShipped);
    CHECK(c.tiers[0].link().name == "nvlink3-switch");
    CHECK(c.tiers[0].provenance.at("curve").evidence == Evidence::Assumed);
    CHECK(c.tiers[0].provenance.at("bandwidth").source == "not stated");
    CHECK(c.tiers[1].fabric().name == "infiniband");
    CHECK(c.tiers[1].nics == Nics{2, Bandwidth(100e9)});
    CHECK(c.tiers[1].bandwidth == Bandwidth(25e9));
  }

  TEST_CASE("profile errors: units, signs and keys") {
    CHECK(error_after("300 GB/s", "300") ==
          "mine.yaml:9:16: error: tiers[0].bandwidth: missing unit after 300\n"
          "hint: expected a bandwidth such as 25 GB/s or 200 Gbit/s");
    CHECK(error_after("300 GB/s", "-300 GB/s") ==
          "mine.yaml:9:16: error: tiers[0].bandwidth: '-300 GB/s' must be above zero");
    CHECK(error_after("300 GB/s", "nan GB/s") ==
          "mine.yaml:9:16: error: tiers[0].bandwidth: 'nan GB/s' is not understood\n"
          "hint: expected a bandwidth such as 25 GB/s or 200 Gbit/s");
    CHECK(error_after("300 GB/s", "300 GiB") ==
          "mine.yaml:9:16: error: tiers[0].bandwidth: '300 GiB' is not understood\n"
          "hint: expected a bandwidth such as 25 GB/s or 200 Gbit/s");
    CHECK(error_after("    shared_by: 4\n", "    shared_bye: 4\n") ==
          "mine.yaml:14:5: error: unknown key 'shared_bye'\nhint: did you mean shared_by?");
    CHECK(
        error_after("kind: switch", "kind: swich") ==
        "mine.yaml:7:11: error: tiers[0].kind: unknown value 'swich'\nhint: did you mean switch?");
    CHECK(error_after("name: mine\n", "") == "mine.yaml:1:1: error: key 'name' is missing");
    CHECK(error_after("profile/v1", "profile/v2") ==
          "mine.yaml:1:9: error: schema: 'plansearch/profile/v2' is not the schema expected here\n"
          "hint: write schema: plansearch/profile/v1");
  }

  TEST_CASE("profile errors: tiers must nest") {
    CHECK(error_after("size: 64", "size: 60") ==
          "mine.yaml:12:11: error: tiers[1].size: size 60 is not a multiple of 8, the size of tier "
          "'nvlink'\nhint: every tier holds a whole number of the tiers inside it");
    CHECK(
        error_after("size: 64", "size: 4") ==
        "mine.yaml:12:11: error: tiers[1].size: size 4 is not above 8, the size of tier 'nvlink'\n"
        "hint: list tiers innermost first; each one spans more accelerators");
    CHECK(error_after("size: 64", "size: 0") ==
          "mine.yaml:12:11: error: tiers[1].size: 0 is below the least value 1");
    CHECK(error_after("size: 8", "size: 3") ==
          "mine.yaml:8:11: error: tiers[0].size: size 3 and the 8 accelerators of a node do not "
          "divide");
    CHECK(error_after("shared_by: 4", "shared_by: 3") ==
          "mine.yaml:14:16: error: tiers[1].shared_by: 3 does not divide the 8 accelerators of a "
          "node");
    CHECK(error_after("name: network", "name: nvlink") ==
          "mine.yaml:10:11: error: tiers[1].name: two tiers have this name");
    CHECK(error_after("accelerators_per_node: 8", "accelerators_per_node: 128")
              .starts_with("mine.yaml:12:11: error: tiers[1].size: the widest tier holds 64"));
  }

  TEST_CASE("profile errors: links and fabrics") {
    CHECK(error_after("kind: switch", "kind: mesh") ==
          "mine.yaml:6:5: error: tiers[0]: key 'pair_bandwidth' is missing\n"
          "hint: a mesh gives a pair only its own links");
    const auto rates = [](const std::string& list) {
      return error_after("    size: 8\n", "    size: 8\n    group_rates: [" + list + "]\n");
    };
    CHECK(rates("{stride: 2, ranks: 4, rate: 50 GB/s}") == "no error");
    CHECK(rates("{stride: 2, ranks: 8, rate: 50 GB/s}").find("do not divide") != std::string::npos);
    CHECK(rates("{stride: 1, ranks: 4, rate: 0 GB/s}").find("rate") != std::string::npos);
    CHECK(rates("{stride: 1, ranks: 2, rate: 5 GB/s}, {stride: 1, ranks: 2, rate: 5 GB/s}")
              .find("given twice") != std::string::npos);
    CHECK(error_after("    shared_by: 4", "    nics_per_node: 8") ==
          "mine.yaml:13:16: error: tiers[1].bandwidth: bandwidth and nics_per_node say the same "
          "thing twice\n"
          "hint: give either nics_per_node and nic_bandwidth, or bandwidth and shared_by");
    CHECK(
        error_after("    size: 64", "    fabric: infinband\n    size: 64") ==
        "mine.yaml:12:13: error: unknown fabric curve 'infinband'\nhint: did you mean infiniband?");
    CHECK(error_after("    size: 8\n", "    size: 8\n    link: nvlink3-switch\n    fabric: roce\n")
              .find("either a link or a fabric") != std::string::npos);
    CHECK(error_after("kind: switch", "kind: fat-tree\n    fabric: roce") == "no error");
    CHECK(
        error_after("kind: switch\n    size: 8\n    bandwidth: 300 GB/s\n",
                    "kind: fat-tree\n    size: 8\n    bandwidth: 25 GB/s\n"
                    "  - {name: odd, kind: switch, size: 16, bandwidth: 9 GB/s, link: pcie5}\n") ==
        "mine.yaml:10:5: error: tiers[1]: a link that accelerators drive directly lies outside a "
        "network\nhint: list the links first, then the tiers with network cards");
  }

  TEST_CASE("profile errors: accelerators") {
    CHECK(error_after("a100-sxm4-80gb", "a100-sxm4-80") ==
          "mine.yaml:3:14: error: unknown accelerator 'a100-sxm4-80'\n"
          "hint: did you mean a100-sxm4-80gb, a100-sxm4-40gb or a800-sxm4-80gb?");
    CHECK(accelerator_error("memory: 80 GiB\n") ==
          "accelerators/chip.yaml:1:1: error: key 'memory_bandwidth' is missing");
    const std::string sheet = "memory: 80 GiB\nmemory_bandwidth: 2 TB/s\nmultiprocessors: 100\n";
    CHECK(accelerator_error(sheet + "peak: {bf16: 312 TFLOP/s}\n") == "no error");
    CHECK(accelerator_error(sheet + "peak: {}\n").find("neither peak.bf16 nor peak.fp16") !=
          std::string::npos);
    CHECK(accelerator_error(sheet + "peak: {bf16: 312 TFLOP/s, fp8: 200 TFLOP/s}\n")
              .find("peak of bf16 (312 TFLOP/s) is above that of the narrower fp8 (200 TFLOP/s)") !=
          std::string::npos);
    CHECK(accelerator_error(sheet + "peak: {int8: 624 TFLOP/s}\n") ==
          "accelerators/chip.yaml:6:8: error: unknown number format 'int8'\n"
          "hint: one of fp64, fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
    CHECK(accelerator_error("memory: 80 MB\n" + sheet.substr(15)) ==
          "accelerators/chip.yaml:3:9: error: memory: 76.3 MiB is not plausible\n"
          "hint: expected 954 MiB to 90.9 TiB; is the prefix right?");
    CHECK(accelerator_error("like: chip\n").find("`like` refers back to itself") !=
          std::string::npos);
    CHECK(
        accelerator_error(sheet + "peak: {bf16: 312 TFLOP/s}\nprovenance:\n"
                                  "  - {fields: [memry], evidence: datasheet, source: x}\n") ==
        "accelerators/chip.yaml:8:15: error: provenance[0].fields[0]: 'memry' is not a field given "
        "here\nhint: did you mean memory?");
  }

  TEST_CASE("profile errors: an accelerator may be changed in place or described inline") {
    const TemporaryDirectory dir;
    const std::string like = replaced(kProfile, "accelerator: a100-sxm4-80gb",
                                      "accelerator:\n  like: h100-sxm5-80gb\n  power: 500 W\n"
                                      "  peak: {fp8: none}");
    const Cluster c = io::load_cluster(dir.write("a.yaml", like).string(), kShipped);
    CHECK(c.accelerator.power_watt == 500.0);
    CHECK_FALSE(c.accelerator.peak_of(DataType::Fp8).has_value());
    CHECK(c.accelerator.peak_of(DataType::Bf16) == FlopRate(989e12));
    dir.write("parts/chip.yaml",
              "schema: plansearch/accelerator/v1\nname: chip\nlike: h100-sxm5-80gb\n");
    const std::string path = replaced(kProfile, "a100-sxm4-80gb", "parts/chip.yaml");
    CHECK(io::load_cluster(dir.write("b.yaml", path).string(), kShipped).accelerator.name ==
          "chip");
  }

  TEST_CASE("profile errors: wrong files") {
    const TemporaryDirectory dir;
    const auto error = [&](const std::string& name) -> std::string {
      try {
        (void)io::load_cluster(name, kShipped);
      } catch (const InputError& e) {
        return e.formatted();
      }
      return "no error";
    };
    CHECK(error("perlmuter") ==
          "error: unknown hardware profile 'perlmuter'\n"
          "hint: did you mean perlmutter, perlmutter-80 or perlmutter-40?");
    CHECK(error(dir.path().string()) ==
          dir.path().string() + ": error: is a directory, not a file\nhint: name a file inside it");
    CHECK(
        error("/no/such/file.yaml") ==
        "/no/such/file.yaml: error: cannot open: No such file or directory\nhint: check the path");
    const std::string cut =
        dir.write("cut.json", R"({"schema": "plansearch/profile/v1", "name")").string();
    CHECK(error(cut) == cut +
                            ":1:43: error: not valid JSON: the file ends too early\n"
                            "hint: is the file truncated?");
    CHECK(error("") == "error: no hardware profile named");
  }
}

}  // namespace plansearch::profile_error_test
