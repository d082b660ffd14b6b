// SPDX-License-Identifier: Apache-2.0
// Values of --set in the files that ship: the reader of each file judges them.
#include "io/document/document.hpp"

#include <doctest/doctest.h>

#include <string>
#include <variant>

#include "plansearch/cluster.hpp"
#include "plansearch/error.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::overlay_test {
namespace {

Cluster machine(const std::string& set, const std::string& name = "dgx-h100") {
  return shipped_data().changed(set).cluster(name);
}

std::string refusal_of(const std::string& set) {
  const ShippedData data = shipped_data().changed(set);
  try {
    static_cast<void>(data.cluster("dgx-h100"));
    static_cast<void>(data.framework("torchtitan"));
    static_cast<void>(data.model("llama3-8b"));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "taken";
}

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("set: a value of a tier by the tier's name, nothing else") {
    Cluster changed = machine("tiers.infiniband.nic_bandwidth=25GB/s");
    const Cluster shipped = machine("");
    REQUIRE(changed.tiers.size() == 2);
    CHECK(changed.tiers[1].nics->bandwidth == Bandwidth(25e9));
    CHECK(changed.tiers[1].provenance.at("nic_bandwidth").evidence == Evidence::Assumed);
    CHECK(changed.tiers[1].provenance.at("nic_bandwidth").source == "set for this question");
    CHECK(changed.tiers[1].provenance.at("nics_per_node").evidence == Evidence::Datasheet);
    CHECK(changed.content_hash != shipped.content_hash);
    CHECK(changed.tiers[0] == shipped.tiers[0]);
    CHECK(changed.accelerator == shipped.accelerator);
    CHECK(machine("tiers.1.nic_bandwidth=25GB/s").tiers == changed.tiers);  // by number
  }

  TEST_CASE("set: a value of the file that a profile names") {
    const Cluster shipped = machine("");
    const Cluster chip = machine("accelerator.memory=70 GiB; accelerator.peak.bf16=800 TFLOP/s");
    CHECK(chip.accelerator.memory == Bytes(70.0 * 1024 * 1024 * 1024));
    CHECK(chip.accelerator.peak_of(DataType::Bf16) == FlopRate(800e12));
    CHECK(chip.accelerator.peak_of(DataType::Fp8) == shipped.accelerator.peak_of(DataType::Fp8));
    CHECK(chip.accelerator.kernels == shipped.accelerator.kernels);
    CHECK(chip.accelerator.name == "h100-sxm5-80gb (changed)");
    CHECK(chip.accelerator.provenance.at("peak.bf16").evidence == Evidence::Assumed);
    CHECK(chip.accelerator.provenance.at("peak.fp8").evidence == Evidence::Datasheet);
    const Cluster fabric = machine("tiers.infiniband.fabric.send=3 us");
    const auto& curve = std::get<FabricCurve>(fabric.tiers[1].curve);
    CHECK(curve.send == Seconds(3e-6));
    CHECK(curve.hop == std::get<FabricCurve>(shipped.tiers[1].curve).hop);
  }

  TEST_CASE("set: a value of a framework that is like another, and of a model") {
    const ShippedData data = shipped_data().changed(
        "framework.constants.host_launch=1 ms; model.layers=3; model.training.seq_len=2048");
    const Framework changed = data.framework("torchtitan-async-tp");
    const Framework shipped = shipped_data().framework("torchtitan-async-tp");
    CHECK(changed.constants.host_launch == Seconds(1e-3));
    CHECK(changed.constants.collective_call == shipped.constants.collective_call);
    CHECK(changed.name == shipped.name);
    const ShippedModel model = data.model("llama3-8b");  // whose published count no longer holds
    CHECK(model.description.layers == 3);
    CHECK(model.description.training.seq_len == 2048);
    CHECK(model.content_hash != shipped_data().model("llama3-8b").content_hash);
  }

  TEST_CASE("set: what a file does not have is told with the nearest") {
    has(refusal_of("tiers.nvlnk.bandwidth=1GB/s"),
        "--set tiers.nvlnk.bandwidth=1GB/s: error: no 'nvlnk' in this list\nhint: did you mean "
        "nvlink?");
    has(refusal_of("tiers.nvlink.bandwith=1GB/s"),
        "--set tiers.nvlink.bandwith=1GB/s: error: unknown key 'bandwith'");
    has(refusal_of("tiers.nvlink.bandwith=1GB/s"), "did you mean bandwidth");
    has(refusal_of("tiers.nvlink.bandwidth=225"), "missing unit after 225");
    has(refusal_of("tiers.nvlink.bandwidth=-1 GB/s"), "must be above zero");
    has(refusal_of("accelerator.memory=1 MiB"), "is not plausible");
    has(refusal_of("framework.constants.host_lunch=1 us"), "did you mean host_launch");
    has(refusal_of("framework.constnts.host_launch=1 us"), "unknown key 'constnts'");
    has(refusal_of("model.layers=none"), "--set model.layers=none: error: layers: 'none' is not a");
    has(refusal_of("model.layrs=3"), "did you mean layers");
    has(refusal_of("tiers.7.bandwidth=1GB/s"), "no '7' in this list");
    has(refusal_of("tiers.nvlink.bandwidth={a: [b}"),
        "--set tiers.nvlink.bandwidth={a: [b}: error");
    has(refusal_of("tiers.nvlink=4"), "error");
    has(refusal_of("accelerator.memory.x.y=4"), "error");
  }
}

}  // namespace plansearch::overlay_test
