// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "io/hardware/profile_reader.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::profile_test {
namespace fs = std::filesystem;

namespace {

const std::array<fs::path, 1> kShipped = {fs::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles"};

Cluster shipped(std::string_view name) {
  return io::load_cluster(name, kShipped);
}

void check_provenance(const ProvenanceMap& map) {
  for (const auto& entry : map) {
    CAPTURE(entry.first);
    CHECK_FALSE(entry.second.source.empty());
    CHECK(entry.second.source != "not stated");
  }
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE(
      "profiles: formats that share a curve follow it when a derived accelerator changes it") {
    // The A100's fp16 has no curve of its own and takes that of bf16; the other way round a given
    // fp16 changes nothing but itself.
    const test::TemporaryDirectory dir;
    dir.write("accelerators/slow-bf16.yaml",
              "schema: plansearch/accelerator/v1\nname: slow-bf16\nlike: a100-sxm4-40gb\n"
              "kernels: {matmul: {bf16: {flop_efficiency: 0.5}}}\n");
    dir.write("accelerators/slow-fp16.yaml",
              "schema: plansearch/accelerator/v1\nname: slow-fp16\nlike: a100-sxm4-40gb\n"
              "kernels: {matmul: {fp16: {flop_efficiency: 0.5}}}\n");
    const auto efficiency = [&](const std::string& accelerator, DataType type) {
      const Cluster cluster = io::load_cluster(
          dir.write("machine.yaml",
                    "schema: plansearch/profile/v1\nname: machine\ndescription: \"a test\"\n"
                    "accelerator: " +
                        accelerator +
                        "\naccelerators_per_node: 8\ntiers:\n  - {name: pcie, kind: switch, "
                        "size: 8, bandwidth: 31 GB/s, link: pcie4-host}\n")
              .string(),
          kShipped);
      return cluster.accelerator.kernels.matmul[static_cast<std::size_t>(type)]->flop_efficiency;
    };
    const double own = efficiency("a100-sxm4-40gb", DataType::Bf16);
    CHECK(efficiency("a100-sxm4-40gb", DataType::Fp16) == own);
    CHECK(efficiency("slow-bf16", DataType::Bf16) == 0.5);
    CHECK(efficiency("slow-bf16", DataType::Fp16) == 0.5);
    CHECK(efficiency("slow-fp16", DataType::Fp16) == 0.5);
    CHECK(efficiency("slow-fp16", DataType::Bf16) == own);
  }

  TEST_CASE(
      "profiles: every shipped cluster loads, is consistent and says where numbers are from") {
    const std::vector<io::NamedFile> files = io::list_clusters(kShipped);
    CHECK(files.size() >= 37);
    for (const io::NamedFile& file : files) {
      CAPTURE(file.name);
      const Cluster cluster = shipped(file.name);
      CHECK(cluster.name == file.name);
      CHECK_FALSE(cluster.description.empty());
      CHECK(cluster == shipped(file.path.string()));
      check_provenance(cluster.provenance);
      check_provenance(cluster.accelerator.provenance);
      int inner = 1;
      for (const LinkTier& tier : cluster.tiers) {
        CHECK(tier.size > (cluster.accelerators_per_node == 1 ? 0 : inner));
        CHECK(tier.size % inner == 0);
        CHECK(tier.is_fabric() == tier.nics.has_value());
        CHECK(tier.bandwidth > Bandwidth(1e8));
        check_provenance(tier.provenance);
        inner = tier.size;
      }
      CHECK(cluster.nodes() * cluster.accelerators_per_node == cluster.accelerators());
    }
  }

  TEST_CASE("profiles: every accelerator has curves for the formats it has") {
    const io::NamedFiles kind{"accelerator", {kShipped[0] / "accelerators"}, {".yaml"}, {}};
    for (const io::NamedFile& file : io::list_files(kind)) {
      CAPTURE(file.name);
      const Accelerator a = io::load_accelerator(file.name, kShipped);
      CHECK(a.name == file.name);
      for (std::size_t i = 0; i < kDataTypeCount; ++i) {
        if (a.peak.at(i)) CHECK(a.kernels.matmul.at(i).has_value());
      }
      CHECK(a.kernels.stream.efficiency > 0.3);
      CHECK(a.kernels.attention_forward.has_value() == a.kernels.attention_backward.has_value());
    }
  }

  TEST_CASE("profiles: names and aliases never clash") {
    std::set<std::string> seen;
    for (const io::NamedFile& file : io::list_clusters(kShipped)) {
      CHECK(seen.insert(file.name).second);
      for (const std::string& alias : file.aliases) {
        CAPTURE(alias);
        CHECK(seen.insert(alias).second);
        CHECK(shipped(alias).name == file.name);
      }
    }
  }

  TEST_CASE("profiles: names resolve by spelling, extension, alias and path") {
    for (const char* name :
         {"dgx-h100", "DGX_H100", "dgx-h100.yaml", "eos", "Eos", "dgx_h100.yaml"}) {
      CHECK(shipped(name).name == "dgx-h100");
    }
    CHECK(shipped("perlmutter.yaml").accelerator.name == "a100-sxm4-40gb");
    CHECK(shipped("perlmutter-80").accelerator.name == "a100-sxm4-80gb");
    CHECK(io::load_accelerator("A100-SXM4-80GB", kShipped).name == "a100-sxm4-80gb");
    CHECK(io::load_accelerator("B200-SXM", kShipped).name == "b200-sxm-180gb");
  }

  TEST_CASE("profiles: the machines are those of the datasheets") {
    const Cluster perlmutter = shipped("perlmutter");
    CHECK(perlmutter.accelerators() == 6144);
    CHECK(perlmutter.accelerators_per_node == 4);
    CHECK(perlmutter.tiers[0].pair_bandwidth == Bandwidth(100e9));
    CHECK(perlmutter.tiers[1].bandwidth == Bandwidth(25e9));
    CHECK(perlmutter.accelerator.peak_of(DataType::Bf16) == FlopRate(312e12));
    CHECK_FALSE(perlmutter.accelerator.peak_of(DataType::Fp8).has_value());
    const Cluster frontier = shipped("frontier");
    CHECK(frontier.tiers.size() == 3);
    CHECK(frontier.tiers[2].bandwidth == Bandwidth(12.5e9));
    CHECK(shipped("aws-p4d").tiers[1].bandwidth == Bandwidth(6.25e9));
    const Cluster slices = shipped("tpu-v5p");
    CHECK(slices.tiers.size() == 2);
    CHECK(slices.tiers[0].size == 8960);
    CHECK(slices.tiers[1].bandwidth == Bandwidth(6.25e9));
    CHECK_FALSE(shipped("jean-zay-v100-32").accelerator.kernels.attention_forward.has_value());
    CHECK(shipped("mosaic-h100").software.attention_kernel == "flash1");
  }

  TEST_CASE("profiles: every machine and label of the published measurements is known") {
    for (const char* name : {"perlmutter",
                             "perlmutter-80",
                             "selene",
                             "dgx-a100",
                             "dgx-h100",
                             "eos",
                             "dgx-h200",
                             "h200",
                             "dgx-b200",
                             "dgx-b300",
                             "gb200-nvl72",
                             "gb300-nvl72",
                             "frontier",
                             "alps",
                             "aurora",
                             "aws-p3-16xlarge",
                             "aws-p3-2xlarge",
                             "aws-p4d",
                             "aws-p5",
                             "azure-ndv4",
                             "azure-ndv5",
                             "mi300x-8",
                             "dgx-1-v100",
                             "dgx-2-v100",
                             "l40s",
                             "rtx-4090-box",
                             "tpu-v5p",
                             "a100-4xhdr200",
                             "mosaic-a100-40",
                             "mosaic-a100-80",
                             "mosaic-h100",
                             "jean-zay-v100-16",
                             "jean-zay-v100-32",
                             "jean-zay-a100",
                             "a100-meta",
                             "a100-4x100g-roce",
                             "h100-500w",
                             "A100-SXM4-80GB",
                             "H100-SXM5-80GB",
                             "B200-SXM",
                             "L40S"}) {
      CAPTURE(name);
      CHECK(shipped(name).accelerators() >= 8);
    }
  }

  TEST_CASE("profiles: one accelerator per node gets a tier of its own below the network") {
    const test::TemporaryDirectory dir;
    const fs::path file = dir.write("lone.yaml",
                                    "schema: plansearch/profile/v1\nname: lone\n"
                                    "accelerator: gh200\naccelerators_per_node: 1\ntiers:\n"
                                    "  - {name: ib, kind: fat-tree, size: 600, nics_per_node: 1,"
                                    " nic_bandwidth: 400 Gbit/s}\n");
    const Cluster lone = io::load_cluster(file.string(), kShipped);
    REQUIRE(lone.tiers.size() == 2);
    CHECK(lone.tiers[0].size == 1);
    CHECK_FALSE(lone.tiers[0].is_fabric());
    CHECK(lone.tiers[1].bandwidth == Bandwidth(50e9));
  }

  TEST_CASE("profiles: a machine like another keeps what its file does not say") {
    const Cluster frontier = shipped("frontier");
    const Cluster lumi = shipped("lumi");
    CHECK(lumi.name == "lumi");
    CHECK(lumi.accelerator == frontier.accelerator);
    CHECK(lumi.accelerators() == 2978 * 8);
    REQUIRE(lumi.tiers.size() == 3);
    CHECK(lumi.tiers[1] == frontier.tiers[1]);
    CHECK(lumi.tiers[2].nics == frontier.tiers[2].nics);
    CHECK(lumi.tiers[2].provenance.at("nic_bandwidth") ==
          frontier.tiers[2].provenance.at("nic_bandwidth"));
    CHECK(lumi.tiers[2].provenance.at("size") != frontier.tiers[2].provenance.at("size"));
    CHECK(lumi.content_hash != frontier.content_hash);
  }

  TEST_CASE("profiles: changes of a machine like another are assumed until their source is named") {
    const test::TemporaryDirectory dir;
    const auto load = [&](const std::string& rest) {
      return io::load_cluster(
          dir.write("mine.yaml", "schema: plansearch/profile/v1\nname: mine\n" + rest).string(),
          kShipped);
    };
    const Cluster slower = load(
        "like: frontier\nprice: 2 $/h\ntiers: [{name: slingshot, nic_bandwidth: 100 Gbit/s}]\n");
    CHECK(slower.tiers[2].bandwidth == Bandwidth(6.25e9));
    CHECK(slower.tiers[2].size == shipped("frontier").tiers[2].size);
    CHECK(slower.tiers[2].provenance.at("nic_bandwidth") ==
          Provenance{Evidence::Assumed, "not stated"});
    CHECK(slower.tiers[2].provenance.at("nics_per_node").evidence == Evidence::Published);
    CHECK(slower.provenance.at("price") == Provenance{Evidence::Assumed, "not stated"});
    // A tier of a new name lies outside those of the base.
    const Cluster wider = load(
        "like: dgx-h100\ntiers: [{name: two-sites, kind: fat-tree, size: 23232, nics_per_node: 1, "
        "nic_bandwidth: 400 Gbit/s}]\n");
    CHECK(wider.tiers.size() == shipped("dgx-h100").tiers.size() + 1);
    CHECK(wider.accelerators() == 23232);
    CHECK_THROWS_WITH_AS(load("like: frontierr\n"), "unknown hardware profile 'frontierr'",
                         InputError);
    CHECK_THROWS_WITH_AS(load("like: ./mine.yaml\n"), "like: `like` refers back to itself",
                         InputError);
    CHECK_THROWS_WITH_AS(load("like: frontier\ntires: []\n"), "unknown key 'tires'", InputError);
  }

  TEST_CASE("profiles: a machine like another may change parts of its accelerator") {
    const test::TemporaryDirectory dir;
    const auto load = [&](const std::string& name, const std::string& rest) {
      const auto path =
          dir.write(name + ".yaml", "schema: plansearch/profile/v1\nname: " + name + "\n" + rest);
      return io::load_cluster(path.string(), kShipped);
    };
    const auto bf16 = [](const Cluster& cluster) {
      return *cluster.accelerator.kernels.matmul.at(static_cast<std::size_t>(DataType::Bf16));
    };
    const Cluster shipped_one = shipped("dgx-h100");
    const Cluster own = load("own",
                             "like: dgx-h100\naccelerator:\n  kernels: {matmul: {bf16: "
                             "{flop_efficiency: 0.7}}}\n");
    CHECK(own.accelerator.name == "h100-sxm5-80gb (changed)");
    CHECK(own.accelerator.memory == shipped_one.accelerator.memory);
    MatmulCurve expected = bf16(shipped_one);
    expected.flop_efficiency = 0.7;
    CHECK(bf16(own) == expected);
    // Of an accelerator that its file describes in place, what is not changed stays.
    load("base",
         "like: dgx-h100\naccelerator: {like: h100, memory: 90 GiB, kernels: {matmul: "
         "{bf16: {flop_efficiency: 0.7, byte_efficiency: 0.6}}}}\n");
    const Cluster again = load("again",
                               "like: ./base.yaml\naccelerator: {kernels: {matmul: {bf16: "
                               "{byte_efficiency: 0.5}}}}\n");
    expected.byte_efficiency = 0.5;
    CHECK(bf16(again) == expected);
    CHECK(again.accelerator.memory == Bytes(90.0 * 1024 * 1024 * 1024));
    // Another accelerator altogether.
    CHECK(load("other", "like: dgx-h100\naccelerator: {like: h200}\n").accelerator.memory ==
          shipped("dgx-h200").accelerator.memory);
  }

  TEST_CASE("profiles: evidence is counted over the whole machine") {
    const std::array<int, 4> counts = count_evidence(shipped("selene"));
    CHECK(counts[static_cast<std::size_t>(Evidence::Measured)] > 0);
    CHECK(counts[static_cast<std::size_t>(Evidence::Datasheet)] > 0);
  }

  TEST_CASE("profiles: the content hash follows the content") {
    CHECK(shipped("selene").content_hash == shipped("dgx-a100").content_hash);
    CHECK(shipped("selene").content_hash != shipped("dgx-h100").content_hash);
  }
}

}  // namespace plansearch::profile_test
