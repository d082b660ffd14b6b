// SPDX-License-Identifier: Apache-2.0
// Arguments of Megatron-LM the other way round: what several of them say together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporters/exporter.hpp"
#include "exporters/fact.hpp"

namespace plansearch::exporters {

void read_window(Reading& reading, const Value& value);
void read_expert_layers(Reading& reading, const Value& value);
/// A word that quotes of an inner shell may still stand around, without blanks.
[[nodiscard]] std::string without_quotes(std::string text);
/// "2" (every second is false, counted from 1), "([1]*3+[0])*2", "[0,1,1]": one for each layer.
[[nodiscard]] std::vector<bool> layer_flags(const Value& value, std::int64_t layers);

/// Whether Megatron-LM's hybrid pattern describes the network.
[[nodiscard]] bool has_pattern(const ModelDescription& model);
/// The layer list in one spelling, for comparisons.
void respell_layers(ModelDescription& model);
/// The layer list that a pattern or a frequency of linear attention says, and its stages.
void settle_layers(Reading& reading);
/// Sizes that follow from others, biases, experts; unknown widths are the framework's.
void settle_megatron_model(Reading& reading);

/// The number of "*20" at `place`, which moves behind it; 1 where no asterisk stands there.
[[nodiscard]] std::int64_t repetitions(std::string_view text, std::size_t& place, std::int64_t low);

[[nodiscard]] Value adapter_rank(const ExportRequest& request);
/// linear_qkv, linear_proj, linear_fc1, linear_fc2 (projections by themselves under latent
/// attention); "all-linear"; null without adapters.
[[nodiscard]] Value megatron_adapters(const ExportRequest& request);
/// Everything that "all-linear" stands for, by name.
[[nodiscard]] Value every_adapted_module(const ExportRequest& request);
/// Rank and modules. WrongValue for modules without a counterpart.
void read_megatron_adapters(Reading& reading);

}  // namespace plansearch::exporters
