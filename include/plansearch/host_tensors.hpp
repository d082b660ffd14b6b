// SPDX-License-Identifier: Apache-2.0
// Tensors that can live in memory of the host between their uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/layer_module.hpp"

namespace plansearch {

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
