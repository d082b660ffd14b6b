// SPDX-License-Identifier: Apache-2.0
// Keys and gaps that several targets share: the architecture as Megatron-LM's arguments,
// DeepSpeed's configuration.
#pragma once

#include <vector>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

[[nodiscard]] std::vector<Key> megatron_model_keys();
[[nodiscard]] std::vector<Trait> megatron_lacks();

/// What a decoder-only model of text has not, whatever runs it.
[[nodiscard]] std::vector<Trait> beyond_decoders();

/// What decoders have learned since GPT-3 and the first Llama, for targets that stayed there.
[[nodiscard]] std::vector<Trait> beyond_first_decoders();

/// "Ettt|tttt|tttL": E embedding, t layer, m prediction module, L loss.
[[nodiscard]] std::string layout_of(const std::vector<StageContent>& stages);

[[nodiscard]] std::vector<Key> deepspeed_keys();
void start_deepspeed(Reading& reading);
void settle_deepspeed(Reading& reading);
/// deepspeed/runtime/engine.py: _do_optimizer_sanity_check, _configure_bf16_optimizer: bf16 with
/// gradients added up in fp32 is BF16_Optimizer, which shards states at stage 0 too.
[[nodiscard]] Conflict unsharded_bf16();
void settle_unsharded_bf16(Reading& reading);
inline constexpr Setting kOffload = setting_of(Degree::Offload);
inline constexpr Setting kMainGradients = setting_of(plansearch::Setting::MainGradients);

}  // namespace plansearch::exporters
