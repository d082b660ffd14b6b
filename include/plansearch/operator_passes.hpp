// SPDX-License-Identifier: Apache-2.0
// Memory-bound operators as passes over tensors: what one implementation of an operator reads and
// writes. Data of frameworks/operators/*.yaml (docs/frameworks.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plansearch {

/// Memory-bound operators with several known implementations.
enum class MemoryBound : std::uint8_t {
  Plain,  ///< all others: every tensor is read or written once
  LayerNorm,
  RmsNorm,
  Rotary,
  Activation,
  GatedActivation,
  Residual,         ///< addition to the stream
  DropoutResidual,  ///< dropout, then the addition
  Softmax,          ///< scale, mask and softmax of materialised scores
  Dropout,
  HeadLayout,  ///< queries, keys, values and result brought into the layout of fused attention
  Loss,
};
inline constexpr std::size_t kMemoryBoundCount = 12;

/// Elements read and written per element of the operator's results (of its input: Loss).
struct PassCount {
  double activation = 0.0;  ///< in the activation format
  double single = 0.0;      ///< in fp32
  double bytes = 0.0;       ///< masks
  bool operator==(const PassCount&) const = default;
};

/// Which tensors an implementation keeps for backward.
enum class KeptTensors : std::uint8_t {
  Fused,     ///< those of one kernel
  Separate,  ///< those of every kernel, fp32 copies included
};

/// One implementation of an operator.
struct OperatorPasses {
  PassCount forward;
  PassCount backward;
  KeptTensors keeps = KeptTensors::Fused;
  /// Pieces of the tokens of a loss: its fp32 tensors exist for one piece at a time.
  double chunks = 1.0;
  /// The loss multiplies by the vocabulary itself, a piece of the tokens after the other: its
  /// logits exist for a piece alone. `chunks` 0: as many pieces as keep one as large as the input
  /// of that product.
  bool multiplies = false;
  std::string source{};
  bool operator==(const OperatorPasses&) const = default;
};

/// Every known implementation of each operator, and the chosen one.
struct OperatorTable {
  std::array<std::map<std::string, OperatorPasses, std::less<>>, kMemoryBoundCount> known;
  std::array<std::string, kMemoryBoundCount> chosen;  ///< empty: every tensor once
  /// Operators that a set or kernel which users name runs otherwise in this framework.
  std::map<std::string, std::vector<std::pair<MemoryBound, std::string>>, std::less<>> meant;
  bool operator==(const OperatorTable&) const = default;

  /// Nothing where no implementation is chosen.
  [[nodiscard]] const OperatorPasses* passes(MemoryBound kind) const {
    const auto index = static_cast<std::size_t>(kind);
    const auto found = known[index].find(chosen[index]);
    return found == known[index].end() ? nullptr : &found->second;
  }
};

/// "rms-norm"; of Plain: "plain".
[[nodiscard]] std::string_view to_text(MemoryBound kind);

/// Sets of implementations that users name: eager, fused, compiled, te.
[[nodiscard]] const std::array<std::string_view, 4>& implementation_sets();
/// Takes the set's implementation of every operator that has it; others fall back to the fused one.
void choose_set(OperatorTable& table, std::string_view set);
/// Single fused kernels that users name: "fused-norm", ...
[[nodiscard]] std::vector<std::string> operator_kernels();
/// Takes the fused implementation of what this kernel replaces; false for names it does not know.
bool choose_kernel(OperatorTable& table, std::string_view kernel);

}  // namespace plansearch
