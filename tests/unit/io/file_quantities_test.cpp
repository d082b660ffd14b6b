// SPDX-License-Identifier: Apache-2.0
// Every number that a sensitivity raises goes its whole way through --set: as it stands it changes
// nothing, a tenth higher it changes what was read, and it changes that alone.
#include "io/document/name_resolver.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "base/overrides.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/error.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::io::file_quantities_test {
namespace {

std::vector<std::filesystem::path> directories() {
  return {shipped_data().directory() / "hardware_profiles"};
}

Cluster machine(const std::string& name, const std::string& set = {}) {
  return shipped_data().changed(set).cluster(name);
}

std::vector<FileQuantity> quantities(const std::string& name) {
  return cluster_quantities(name, directories(), {}, machine(name));
}

/// Without what says where a number is from, and names of changed files.
Cluster numbers_of(Cluster cluster) {
  cluster.like.clear();
  cluster.provenance.clear();
  cluster.content_hash = 0;
  cluster.accelerator.name.clear();
  cluster.accelerator.aliases.clear();
  cluster.accelerator.provenance.clear();
  for (LinkTier& tier : cluster.tiers) {
    tier.provenance.clear();
    tier.curve = LocalLinkCurve{};
  }
  return cluster;
}

/// Every constant of a framework, as text.
std::string constants_of(Framework framework) {
  std::string text;
  for (const ConstantRow& row : framework_constant_rows()) {
    const ConstantField field = row.field(framework.constants);
    text += std::string(row.name) + "=";
    if (const auto* number = std::get_if<double*>(&field)) text += std::to_string(**number * 1e9);
    if (const auto* time = std::get_if<Seconds*>(&field)) {
      text += std::to_string((*time)->value() * 1e9);
    }
    if (const auto* bytes = std::get_if<Bytes*>(&field)) text += std::to_string((*bytes)->value());
    if (const auto* yes = std::get_if<bool*>(&field)) text += **yes ? "yes" : "no";
    text += "\n";
  }
  return text;
}

/// Curves as text: six digits.
std::string curves_of(const Cluster& cluster) {
  std::string text;
  for (const LinkTier& tier : cluster.tiers) text += curve_text(tier.curve) + "\n";
  return text;
}

bool same(const Cluster& a, const Cluster& b) {
  return numbers_of(a) == numbers_of(b) && curves_of(a) == curves_of(b);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("file quantities: set to what they are they change nothing, to more they do") {
    for (const std::string name :
         {"dgx-h100", "perlmutter", "aws-p3", "mi300x-8", "tpu-v5p", "gb200-nvl72", "h800-8"}) {
      const Cluster shipped = machine(name);
      const auto all = quantities(name);
      CHECK(all.size() > 10);
      int refused = 0;
      for (const FileQuantity& one : all) {
        CAPTURE(name);
        CAPTURE(one.key);
        const bool unchanged = same(machine(name, one.set(1.0)), shipped);
        CHECK(unchanged);
        try {
          const bool changed = !same(machine(name, one.set(1.1)), shipped);
          CHECK(changed);
        } catch (const InputError&) {
          ++refused;  // one more than another number allows
        }
      }
      CHECK(refused <= 3);
    }
  }

  TEST_CASE("file quantities: keys, values and what --set takes") {
    const auto all = quantities("dgx-h100");
    const auto find = [&](const std::string& key) {
      const auto found = std::find_if(all.begin(), all.end(),
                                      [&](const FileQuantity& one) { return one.key == key; });
      REQUIRE(found != all.end());
      return *found;
    };
    CHECK(find("tiers.nvlink.bandwidth").value == "450 GB/s");
    CHECK(find("tiers.nvlink.bandwidth").set(1.1) == "tiers.nvlink.bandwidth=495 GB/s");
    CHECK(find("accelerator.peak.bf16").set(2.0) == "accelerator.peak.bf16=1978 TFLOP/s");
    const Cluster higher = machine("dgx-h100", find("accelerator.kernels.attention.flash3.backward."
                                                    "launch")
                                                   .set(1.1));
    const Cluster shipped = machine("dgx-h100");
    REQUIRE(higher.accelerator.kernels.attention.size() ==
            shipped.accelerator.kernels.attention.size());
    CHECK(higher.accelerator.kernels.attention_backward->launch.value() ==
          doctest::Approx(13.2e-6));
    CHECK(higher.accelerator.kernels.attention_forward ==
          shipped.accelerator.kernels.attention_forward);
    // A value that the question sets already is the one that counts.
    const auto set = overrides_of("tiers.nvlink.bandwidth=200 GB/s", OverriddenFile::Hardware);
    const auto changed = cluster_quantities("dgx-h100", directories(), set,
                                            machine("dgx-h100", "tiers.nvlink.bandwidth=200 GB/s"));
    CHECK(std::count_if(changed.begin(), changed.end(), [](const FileQuantity& one) {
            return one.key == "tiers.nvlink.bandwidth" && one.value == "200 GB/s";
          }) == 1);
  }

  TEST_CASE("file quantities: a framework's, those it is like included") {
    const std::array<std::filesystem::path, 1> folder{shipped_data().directory() / "frameworks"};
    const auto all = framework_quantities("torchtitan-async-tp", folder, {});
    const std::string shipped = constants_of(shipped_data().framework("torchtitan-async-tp"));
    int constants = 0;
    for (const FileQuantity& one : all) {
      CAPTURE(one.key);
      CHECK(one.key.starts_with("framework."));
      const auto set_to = [&](double factor) {
        return constants_of(
            shipped_data().changed(one.set(factor)).framework("torchtitan-async-tp"));
      };
      const bool unchanged = set_to(1.0) == shipped;
      CHECK(unchanged);
      if (!one.key.starts_with("framework.constants.")) continue;
      ++constants;
      const bool changed = set_to(1.1) != shipped;
      CHECK(changed);
    }
    CHECK(constants >= 5);
  }
}

}  // namespace plansearch::io::file_quantities_test
