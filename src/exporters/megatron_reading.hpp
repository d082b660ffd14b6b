// SPDX-License-Identifier: Apache-2.0
// Arguments of Megatron-LM the other way round: what it does where nothing is said, and what
// several arguments say together.
#pragma once

#include <vector>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

/// Older names and arguments that exports do without.
[[nodiscard]] std::vector<Key> megatron_other_keys();
void start_megatron(Reading& reading);
void settle_megatron(Reading& reading);
/// Everything but the network and its dispatcher, of programs that hand these arguments on.
void settle_megatron_plan(Reading& reading);
/// Keys that begin with `prefix` under Megatron-LM's own names too: "a.tensor_model_parallel_size"
/// as "--tensor-model-parallel-size". Null is not said.
void say_as_megatron(Reading& reading, std::string_view prefix);

void read_context_kind(Reading& reading, const Value& value);

// The network.
void read_positions(Reading& reading, const Value& value);
void read_window(Reading& reading, const Value& value);
void read_expert_layers(Reading& reading, const Value& value);
/// Sizes that follow from others, biases, experts; unknown widths are the framework's.
void settle_megatron_model(Reading& reading);

/// "Et*20|t*12L": the stages of a layout. WrongValue for other words.
[[nodiscard]] std::vector<StageContent> stages_of_layout(const std::string& layout);

}  // namespace plansearch::exporters
