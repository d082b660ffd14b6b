// SPDX-License-Identifier: Apache-2.0
// What of `--offload` a target can say: lists of words, in the order of host_words().
#pragma once

#include <string_view>
#include <vector>

#include "exporters/exporter.hpp"
#include "exporters/reading.hpp"

namespace plansearch::exporters {

/// True where it lies on the host, else null.
template <bool HostTensors::*What>
[[nodiscard]] Value if_on_host(const ExportRequest& request) {
  return host_tensors(request.degrees.on_host).*What ? Value(true) : Value();
}

/// FSDP's CPU offload, where it is on: all of a shard.
void read_shard_offload(Reading& reading, const Value& value);

/// FSDP keeps all of a shard on the host.
[[nodiscard]] inline std::vector<std::string_view> shard_offloads() {
  return {"none", "optimizer,parameters"};
}
/// The same, and what layers keep.
[[nodiscard]] inline std::vector<std::string_view> trainer_offloads() {
  return {"none", "optimizer,parameters", "activations", "optimizer,parameters,activations"};
}
/// Each by a key of its own.
[[nodiscard]] inline std::vector<std::string_view> deepspeed_offloads() {
  return {"none",
          "optimizer",
          "parameters",
          "activations",
          "optimizer,parameters",
          "optimizer,activations",
          "parameters,activations",
          "optimizer,parameters,activations"};
}
[[nodiscard]] inline std::vector<std::string_view> megatron_offloads() {
  return {"none",
          "optimizer",
          "core_attn",
          "moe_act",
          "core_attn,moe_act",
          "optimizer,core_attn",
          "optimizer,moe_act",
          "optimizer,core_attn,moe_act"};
}

}  // namespace plansearch::exporters
