// SPDX-License-Identifier: Apache-2.0
// How a key of a target spells a fact, both ways.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporters/exporter.hpp"
#include "exporters/fact.hpp"

namespace plansearch::exporters {

struct Spelling {
  /// Values of the fact and what is written for each; null: not said. Values that are not listed
  /// are written as they are, switches that are not are not said.
  std::vector<std::pair<std::string, Value>> words{};
  std::vector<std::pair<std::string, Value>> read_as{};  ///< further words, and what they mean
  /// Values of switches without words.
  Value on = Value(true);
  Value off{};
  Value otherwise{};       ///< in place of a fact that has nothing to say
  std::string list{};      ///< of several words: "brackets", "commas"; empty: as a list
  bool hydra = false;      ///< free text is quoted as Hydra's overrides are
  bool left_open = false;  ///< "auto", "none" and "null" say nothing where the row has no such word
};

[[nodiscard]] Value spelled(const Fact& fact, const Spelling& spelling,
                            const ExportRequest& request);
/// Tells the reading the fact and calls its own `read`. WrongValue for what the row does not spell.
void read_spelled(const Fact& fact, const Spelling& spelling, Reading& reading, const Value& value);

[[nodiscard]] Key key_of(std::string_view name, const Fact& fact, Spelling spelling);

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
