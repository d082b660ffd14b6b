// SPDX-License-Identifier: Apache-2.0
#include "plansearch/framework.hpp"

namespace plansearch {
namespace {

using M = MemoryBound;

constexpr std::array<std::string_view, kMemoryBoundCount> kNames{
    "plain",    "layer_norm",       "rms_norm", "rotary",  "activation",  "gated_activation",
    "residual", "dropout_residual", "softmax",  "dropout", "head_layout", "loss"};

constexpr std::string_view kFused = "fused";

/// Words of `kernels`: the operators a single kernel replaces, and its implementation.
struct KernelWord {
  std::string_view word;
  MemoryBound kind;
  std::string_view implementation = kFused;
};
constexpr KernelWord kKernels[] = {{"fused-norm", M::LayerNorm},
                                   {"fused-norm", M::RmsNorm},
                                   {"fused-rope", M::Rotary},
                                   {"fused-activation", M::Activation},
                                   {"fused-activation", M::GatedActivation},
                                   {"fused-swiglu", M::GatedActivation},
                                   {"fused-gelu", M::Activation},
                                   {"fused-dropout", M::DropoutResidual},
                                   {"fused-softmax", M::Softmax},
                                   {"fused-loss", M::Loss},
                                   {"chunked-loss", M::Loss, "chunked"},
                                   {"fused-linear-loss", M::Loss, "fused_linear"}};

void choose(OperatorTable& table, MemoryBound kind, std::string_view name) {
  const auto index = static_cast<std::size_t>(kind);
  const auto& known = table.known[index];
  if (known.contains(name)) {
    table.chosen[index] = name;
  } else if (known.contains(kFused)) {
    table.chosen[index] = kFused;
  }
}

void choose_meant(OperatorTable& table, std::string_view word) {
  const auto found = table.meant.find(word);
  if (found == table.meant.end()) return;
  for (const auto& [kind, name] : found->second) {
    table.chosen[static_cast<std::size_t>(kind)] = name;
  }
}

}  // namespace

std::string_view to_text(MemoryBound kind) {
  return kNames.at(static_cast<std::size_t>(kind));
}

const std::array<std::string_view, 4>& implementation_sets() {
  static constexpr std::array<std::string_view, 4> kSets{"eager", "fused", "compiled", "te"};
  return kSets;
}

void choose_set(OperatorTable& table, std::string_view set) {
  for (std::size_t i = 0; i < kMemoryBoundCount; ++i) choose(table, static_cast<M>(i), set);
  choose_meant(table, set);
}

std::vector<std::string> operator_kernels() {
  std::vector<std::string> names;
  for (const KernelWord& known : kKernels) {
    if (names.empty() || names.back() != known.word) names.emplace_back(known.word);
  }
  return names;
}

bool choose_kernel(OperatorTable& table, std::string_view kernel) {
  bool any = false;
  for (const KernelWord& known : kKernels) {
    if (known.word != kernel) continue;
    choose(table, known.kind, known.implementation);
    any = true;
  }
  choose_meant(table, kernel);
  return any;
}

void take_kept_tensors(Framework& framework) {
  const auto separate = [&](MemoryBound kind) -> std::optional<bool> {
    const OperatorPasses* passes = framework.operators.passes(kind);
    if (passes == nullptr) return std::nullopt;
    return passes->keeps == KeptTensors::Separate;
  };
  Implementation& kept = framework.implementation;
  if (const auto own = separate(M::Softmax))
    kept.softmax = *own ? SoftmaxResult::Single : SoftmaxResult::AsIs;
  if (const auto own = separate(M::GatedActivation))
    kept.gate = *own ? GatedActivation::Separate : GatedActivation::OneKernel;
  if (const auto own = separate(M::RmsNorm)) kept.norm = *own ? NormInput::Single : NormInput::AsIs;
}

std::string_view to_text(LayerDistribution value) {
  static constexpr std::array<std::string_view, 4> kWords{"even", "first-more", "inner-more",
                                                          "by-cost"};
  return kWords.at(static_cast<std::size_t>(value));
}

std::string_view to_text(OptimizerStart value) {
  static constexpr std::array<std::string_view, 3> kWords{"together", "per-device",
                                                          "post-validated"};
  return kWords.at(static_cast<std::size_t>(value));
}

}  // namespace plansearch
