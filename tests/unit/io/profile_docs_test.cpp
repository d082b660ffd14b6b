// SPDX-License-Identifier: Apache-2.0
// The examples of docs/hardware_profiles.md are real: they load as written.
#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "io/document/file.hpp"
#include "io/hardware/profile_reader.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::profile_docs_test {
namespace fs = std::filesystem;

namespace {

std::vector<std::string> yaml_blocks(const std::string& markdown) {
  const std::string open = "```yaml";  // and the name the example is saved under
  std::vector<std::string> blocks;
  for (std::size_t at = markdown.find(open); at != std::string::npos;
       at = markdown.find(open, at + 1)) {
    const std::size_t start = markdown.find('\n', at) + 1;
    blocks.push_back(markdown.substr(start, markdown.find("```", start) - start));
  }
  return blocks;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("profile docs: the annotated examples load") {
    const fs::path source(PLANSEARCH_SOURCE_DIR);
    const auto blocks = yaml_blocks(io::read_file(source / "docs" / "hardware_profiles.md"));
    REQUIRE(blocks.size() == 4);
    const test::TemporaryDirectory dir;
    dir.write("accelerators/kx200.yaml", blocks[1]);
    const std::array<fs::path, 1> directories = {source / "hardware_profiles"};
    const Cluster kestrel =
        io::load_cluster(dir.write("kestrel.yaml", blocks[0]).string(), directories);
    CHECK(kestrel.accelerators() == 2048);
    CHECK(kestrel.accelerator.name == "kx200");
    CHECK(kestrel.accelerator.kernels.matmul[static_cast<std::size_t>(DataType::Bf16)]
              ->flop_efficiency == 0.80);
    CHECK(kestrel.tiers[0].link().switch_reduction == Bandwidth(270e9));
    CHECK(kestrel.tiers[1].bandwidth == Bandwidth(25e9));
    CHECK(kestrel.tiers[2].bandwidth == Bandwidth(25e9));
    CHECK(kestrel.tiers[2].fabric().nic_efficiency == 0.75);
    CHECK(kestrel.price_usd_per_accelerator_hour == 3.20);
    const Cluster capped =
        io::load_cluster(dir.write("capped.yaml", blocks[2]).string(), directories);
    CHECK_FALSE(capped.accelerator.peak_of(DataType::Fp8).has_value());
    CHECK(capped.tiers[0].link().name == "nvlink4-switch");
  }
}

}  // namespace plansearch::profile_docs_test
