// SPDX-License-Identifier: Apache-2.0
// NVIDIA/Megatron-LM@d98e8a64 (2026-08-22) megatron/core/transformer/transformer_config.py:
// recompute_modules; CheckpointWithoutOutput in transformer_layer.py, multi_latent_attention.py and
// moe/experts.py.

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "plansearch/layer_module.hpp"

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

namespace {

constexpr unsigned kModulesFrom = 3;

}  // namespace

HostTensors host_tensors(HostBits bits) {
  return {(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0,
          LayerModules(static_cast<unsigned>(bits) >> kModulesFrom)};
}

HostBits to_bits(const HostTensors& tensors) {
  const unsigned whole = (tensors.optimizer ? 1U : 0U) | (tensors.parameters ? 2U : 0U) |
                         (tensors.activations ? 4U : 0U);
  return static_cast<HostBits>(whole | tensors.modules.to_ulong() << kModulesFrom);
}

const std::vector<std::string>& host_words() {
  static const std::vector<std::string> kWords = [] {
    std::vector<std::string> words{"none", "optimizer", "parameters", "activations"};
    for (std::size_t i = 0; i < kLayerModuleCount; ++i) {
      words.emplace_back(to_text(static_cast<LayerModule>(i)));
    }
    return words;
  }();
  return kWords;
}

std::optional<HostBits> find_host_tensors(std::string_view text) {
  const std::vector<std::string>& words = host_words();
  if (text == words.front() || text == "0") return HostBits{0};
  HostBits bits = 0;
  for (const std::string& word : words_of(text, " ,+")) {
    const auto known = std::find(words.begin() + 1, words.end(), word);
    if (known == words.end()) return std::nullopt;
    bits = static_cast<HostBits>(bits | 1U << (known - words.begin() - 1));
  }
  return bits == 0 ? std::nullopt : std::optional(bits);
}

std::string_view host_text(HostBits bits) {
  static const auto kTexts = [] {
    std::vector<std::string> texts(kHostSets);
    texts.front() = host_words().front();
    for (std::size_t set = 1; set < kHostSets; ++set) {
      for (std::size_t bit = 0; set >> bit != 0; ++bit) {
        if ((set >> bit & 1U) == 0) continue;
        if (!texts[set].empty()) texts[set] += ',';
        texts[set] += host_words()[bit + 1];
      }
    }
    return texts;
  }();
  return kTexts.at(bits);
}

}  // namespace plansearch
