// SPDX-License-Identifier: Apache-2.0
// The architecture as Megatron-LM's arguments.
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

}  // namespace plansearch::exporters
