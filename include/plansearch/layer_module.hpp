// SPDX-License-Identifier: Apache-2.0
// Parts of a layer that selective recomputation runs again by name, and tensors that can live in
// memory of the host between their uses.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch {

/// Named as Megatron-Core does (TransformerConfig.recompute_modules).
enum class LayerModule : std::uint8_t {
  CoreAttention,
  LayerNorm,        ///< before attention, before the MLP
  MlaUpProjection,  ///< out of the latents, with their norms and rotation
  Mlp,              ///< the dense one
  Moe,              ///< router, exchanges and experts
  MoeActivation,    ///< between the two products of the routed experts
  SharedExperts,
};
inline constexpr std::size_t kLayerModuleCount = 7;

using LayerModules = std::bitset<kLayerModuleCount>;

/// A stand-in for a set of modules that a search is to find: the cheapest that fits.
inline constexpr std::uint8_t kFewestModules = 1U << kLayerModuleCount;

[[nodiscard]] constexpr LayerModules bit_of(LayerModule module) {
  return {1ULL << static_cast<unsigned>(module)};
}

/// "core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts".
[[nodiscard]] std::string_view to_text(LayerModule module);
[[nodiscard]] std::optional<LayerModule> find_layer_module(std::string_view word);
/// The words of a set, separated by `separator`.
[[nodiscard]] std::string to_text(LayerModules modules, std::string_view separator);

/// Modules whose results are thrown away as well, and made again before backward reads them; of the
/// others the result is kept where something outside needs it.
[[nodiscard]] LayerModules discards_results();

/// Tensors in memory of the host between their uses.
struct HostTensors {
  bool optimizer = false;    ///< states, and their update
  bool parameters = false;   ///< what a rank keeps of them; copied to the device before each gather
  bool activations = false;  ///< everything that layers keep from forward to backward
  LayerModules modules;      ///< or what these parts of a layer keep
  [[nodiscard]] bool any() const { return optimizer || parameters || activations || modules.any(); }
  bool operator==(const HostTensors&) const = default;
};

/// The same as a number: a bit for each, in this order; 0: nothing.
using HostBits = std::uint16_t;
inline constexpr std::size_t kHostSets = std::size_t{1} << (3 + kLayerModuleCount);

[[nodiscard]] HostTensors host_tensors(HostBits bits);
[[nodiscard]] HostBits to_bits(const HostTensors& tensors);

/// "none", then a word for each bit: "optimizer", "parameters", "activations", modules.
[[nodiscard]] const std::vector<std::string>& host_words();
/// The tensors of a list of words.
[[nodiscard]] std::optional<HostBits> find_host_tensors(std::string_view text);
/// The list, "optimizer,parameters", in the order of the words.
[[nodiscard]] std::string_view host_text(HostBits bits);

}  // namespace plansearch
