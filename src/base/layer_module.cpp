// SPDX-License-Identifier: Apache-2.0
// NVIDIA/Megatron-LM@d98e8a64 (2026-08-22) megatron/core/transformer/transformer_config.py:
// recompute_modules; CheckpointWithoutOutput in transformer_layer.py, multi_latent_attention.py and
// moe/experts.py.
#include "plansearch/layer_module.hpp"

#include <algorithm>
#include <array>

namespace plansearch {
namespace {

constexpr std::array<std::string_view, kLayerModuleCount> kWords{
    "core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"};

}  // namespace

std::string_view to_text(LayerModule module) {
  return kWords.at(static_cast<std::size_t>(module));
}

std::optional<LayerModule> find_layer_module(std::string_view word) {
  const auto* found = std::find(kWords.begin(), kWords.end(), word);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<LayerModule>(found - kWords.begin());
}

std::string to_text(LayerModules modules, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (!modules.test(i)) continue;
    if (!text.empty()) text += separator;
    text += kWords[i];
  }
  return text;
}

LayerModules discards_results() {
  return bit_of(LayerModule::LayerNorm) | bit_of(LayerModule::MlaUpProjection) |
         bit_of(LayerModule::MoeActivation);
}

}  // namespace plansearch
