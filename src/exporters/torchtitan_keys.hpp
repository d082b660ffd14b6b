// SPDX-License-Identifier: Apache-2.0
// What the command line and the TOML file of torchtitan share.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

/// Sizes, and the parameters they and everything else of a network come to: another width, tied
/// embeddings, biases or norms give another number.
struct NetworkSizes {
  std::int64_t layers, hidden, heads, kv_heads, vocab, experts, parameters;
  bool operator==(const NetworkSizes&) const = default;
};

/// A network that torchtitan ships: its module, its configuration on the main branch (empty: none)
/// and its flavor in 0.2.
struct RegisteredModel {
  std::string_view module;
  std::string_view config;
  std::string_view flavor;
  NetworkSizes sizes;
};
using ModelName = std::string_view RegisteredModel::*;

/// The row of this network, where it has the name.
[[nodiscard]] const RegisteredModel* find_model(const ExportRequest& request, ModelName name);
/// The row that the target calls so.
[[nodiscard]] const RegisteredModel* find_registered(std::string_view module, ModelName name,
                                                     std::string_view word);
/// Schedules by our names.
[[nodiscard]] const std::map<std::string, std::string>& torch_schedules();
/// A word of that row; none: not said.
[[nodiscard]] Value registered(const ExportRequest& request, ModelName name, ModelName word);
[[nodiscard]] std::string torch_name(DataType precision);
[[nodiscard]] std::string reshard(const ExportRequest& request);
[[nodiscard]] std::string torch_schedule(const ExportRequest& request);
/// pipeline_parallel_layers_per_stage where it gives the stages of the plan.
[[nodiscard]] Value layers_per_stage(const ExportRequest& request);
/// True where the plan recomputes at this level.
[[nodiscard]] Value is_level(const ExportRequest& request, Recompute level);
/// True where products run over rings.
[[nodiscard]] Value over_rings(const ExportRequest& request);
/// All but the line of the layers.
[[nodiscard]] std::vector<Accepts> torchtitan_accepts();
/// PYTORCH_ALLOC_CONF as in torchtitan's run_train.sh.
[[nodiscard]] std::optional<std::string> expandable(const ExportRequest& request);

}  // namespace plansearch::exporters
