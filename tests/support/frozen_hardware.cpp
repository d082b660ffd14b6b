// SPDX-License-Identifier: Apache-2.0
#include "support/frozen_hardware.hpp"

#include <sstream>
#include <stdexcept>

#include "io/tables/csv.hpp"
#include "support/source_directory.hpp"

namespace plansearch::test {
namespace {

const std::string kData = PLANSEARCH_SOURCE_DIR "/tests/data";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ';');) parts.push_back(part);
  return parts;
}

}  // namespace

FrozenHardware::FrozenHardware() {
  const auto constants = io::CsvTable::read(kData + "/kernel_constants.csv");
  for (const auto& row : constants.rows()) {
    constants_[{constants.text(row, "owner"), constants.text(row, "field")}] =
        constants.number(row, "value", 0.0).value();
  }
  const auto times = io::CsvTable::read(kData + "/kernel_times.csv");
  for (const auto& row : times.rows()) {
    times_[times.text(row, "what")].push_back(
        {split(times.text(row, "inputs")), times.number(row, "time_us", 0.0).value()});
  }
}

std::vector<FrozenTime> FrozenHardware::times(const std::string& what) const {
  return times_.at(what);
}

std::optional<double> FrozenHardware::find(const std::string& owner,
                                           const std::string& field) const {
  const auto found = constants_.find({owner, field});
  if (found == constants_.end()) return std::nullopt;
  return found->second;
}

double FrozenHardware::value(const std::string& owner, const std::string& field) const {
  const auto found = find(owner, field);
  if (!found) throw std::runtime_error("no constant " + owner + " " + field);
  return *found;
}

std::optional<MatmulCurve> FrozenHardware::matmul(const std::string& owner,
                                                  const std::string& type) const {
  if (!find(owner, type + ".launch")) return std::nullopt;
  const auto get = [&](const char* field) { return value(owner, type + "." + field); };
  MatmulCurve curve;
  curve.launch = Seconds(get("launch"));
  curve.flop_efficiency = get("flop_efficiency");
  curve.byte_efficiency = get("byte_efficiency");
  curve.prologue_depth = get("prologue_depth");
  curve.tile_penalty = get("tile_penalty");
  curve.wave_quantisation = get("wave_quantisation");
  curve.split_traffic = get("split_traffic");
  curve.split_pass = Seconds(2e-6);
  curve.burst_warm_up = Seconds(3e-3);
  curve.power_droop = get("power_droop");
  curve.quantise_bytes = find(owner, type + ".quantise_bytes").value_or(0.0);
  return curve;
}

Accelerator FrozenHardware::accelerator(const std::string& name) const {
  Accelerator chip;
  chip.name = name;
  chip.multiprocessors = static_cast<int>(value(name, "multiprocessors"));
  chip.memory_bandwidth = Bandwidth(value(name, "memory_bandwidth"));
  for (const DataType type : {DataType::Bf16, DataType::Fp8, DataType::Nvfp4}) {
    const std::string key(to_text(type));
    const auto index = static_cast<std::size_t>(type);
    chip.kernels.matmul[index] = matmul(name, key);
    if (chip.kernels.matmul[index]) chip.peak[index] = FlopRate(value(name, key + ".peak"));
  }
  return chip;
}

AttentionCurve FrozenHardware::attention(const std::string& owner,
                                         const std::string& kernel) const {
  const auto get = [&](const char* field) { return value(owner, kernel + "." + field); };
  AttentionCurve curve;
  curve.launch = Seconds(get("launch"));
  curve.flop_efficiency = get("flop_efficiency");
  curve.exponentials_per_us = get("exponentials_per_us");
  curve.block = Seconds(get("block"));
  curve.longest = get("longest");
  curve.query_byte_efficiency = get("query_byte_efficiency");
  curve.key_byte_efficiency = get("key_byte_efficiency");
  curve.wide_head = get("wide_head");
  curve.token = Seconds(get("token"));
  return curve;
}

LinkTier FrozenHardware::link(const std::string& name, int size) const {
  const auto get = [&](const char* field) { return value(name, field); };
  LocalLinkCurve curve;
  curve.base = Seconds(get("base"));
  curve.step = Seconds(get("step"));
  curve.low_latency = Bandwidth(get("low_latency"));
  curve.low_latency_128_base = Seconds(get("low_latency_128_base"));
  curve.low_latency_128 = Bandwidth(get("low_latency_128"));
  curve.simple_base = Seconds(get("simple_base"));
  curve.simple_step = Seconds(get("simple_step"));
  curve.simple = Bandwidth(get("simple"));
  curve.pairwise_base = Seconds(get("pairwise_base"));
  curve.local_copy = get("local_copy");
  curve.fill = get("fill");
  if (const auto reduction = find(name, "switch_reduction")) {
    curve.switch_reduction = Bandwidth(*reduction);
    curve.switch_base = Seconds(get("switch_base"));
  }
  curve.sharing_exponent = find(name, "sharing_exponent").value_or(0.0);
  LinkTier tier;
  tier.name = name;
  tier.size = size;
  tier.bandwidth = Bandwidth(get("bandwidth"));
  if (const auto pair = find(name, "pair_bandwidth")) {
    tier.kind = TierKind::Mesh;
    tier.pair_bandwidth = Bandwidth(*pair);
  }
  tier.curve = curve;
  return tier;
}

LinkTier FrozenHardware::fabric(const std::string& name, double node_bandwidth, int node,
                                int size) const {
  const auto get = [&](const char* field) { return value(name, field); };
  FabricCurve curve;
  curve.hop_low_latency = Seconds(get("hop_low_latency"));
  curve.low_latency = Bandwidth(get("low_latency"));
  curve.hop = Seconds(get("hop"));
  curve.ring_step = Seconds(get("ring_step"));
  curve.fill = get("fill");
  curve.forward_fill = get("forward_fill");
  curve.nic_efficiency = get("nic_efficiency");
  curve.efficiency_decay = get("efficiency_decay");
  curve.send = Seconds(get("send"));
  curve.send_efficiency = get("send_efficiency");
  curve.all_to_all_peer = Seconds(get("all_to_all_peer"));
  curve.jitter_p90 = get("jitter_p90");
  LinkTier tier;
  tier.name = name;
  tier.kind = TierKind::FatTree;
  tier.size = size;
  tier.bandwidth = Bandwidth(node_bandwidth / node);
  tier.curve = curve;
  return tier;
}

Cluster FrozenHardware::one_node(const std::string& link_name, int size) const {
  Cluster cluster;
  cluster.name = link_name;
  cluster.accelerators_per_node = size;
  cluster.tiers = {link(link_name, size)};
  return cluster;
}

Cluster FrozenHardware::several_nodes(const std::string& link_name, const std::string& fabric_name,
                                      double node_bandwidth, int node, int size) const {
  Cluster cluster = one_node(link_name, node);
  cluster.tiers.push_back(fabric(fabric_name, node_bandwidth, node, size));
  return cluster;
}

CommunicationKind kind_of(const std::string& name) {
  if (name == "all_reduce") return CommunicationKind::AllReduce;
  if (name == "all_gather") return CommunicationKind::AllGather;
  if (name == "reduce_scatter") return CommunicationKind::ReduceScatter;
  if (name == "alltoall") return CommunicationKind::AllToAll;
  throw std::runtime_error("no collective " + name);
}

}  // namespace plansearch::test
