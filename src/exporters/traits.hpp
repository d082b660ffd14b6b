// SPDX-License-Identifier: Apache-2.0
// Traits of networks that targets lack, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

/// The trait of a name, or those of a group ("beyond_decoders"); none: no such name.
[[nodiscard]] std::vector<Trait> traits_called(std::string_view name);
[[nodiscard]] std::vector<std::string> trait_names();
/// Whether MaxText has no decoder block that is this layer (maxtext.cpp).
[[nodiscard]] bool has_no_block(const ModelDescription& model);

// Which linear layers have a bias; of networks with experts those of the experts stand for the MLP.
[[nodiscard]] inline bool mlp_bias(const ModelDescription& m) {
  return m.moe ? m.moe->expert_bias : m.mlp.bias;
}
[[nodiscard]] inline bool bias_everywhere(const ModelDescription& m) {
  return m.attention.query_key_value_bias && m.attention.output_bias && mlp_bias(m);
}
[[nodiscard]] inline bool bias_of_queries_only(const ModelDescription& m) {
  return m.attention.query_key_value_bias && !m.attention.output_bias && !mlp_bias(m);
}
[[nodiscard]] inline bool bias_nowhere(const ModelDescription& m) {
  return !m.attention.query_key_value_bias && !m.attention.output_bias && !mlp_bias(m);
}

}  // namespace plansearch::exporters
