// SPDX-License-Identifier: Apache-2.0
// The MLP: one matrix product out of the stream, an activation, one product back.
#include "workload/layer_parts.hpp"

namespace plansearch {
namespace {

/// Intermediates that a gated activation keeps where it is not one kernel. The product keeps the
/// activated gate; ReLU has kept that as its own result. A clamped gate keeps both clamped halves,
/// the sigmoid and the activated gate.
int gate_intermediates(Activation activation) {
  if (activation == Activation::Relu) return 0;
  return activation == Activation::ClampedSilu ? 4 : 1;
}

/// ReLU's backward reads its result, which the next product keeps anyway; others read their input.
std::vector<Saved> kept_by_activation(const Stack& stack, TensorId before, TensorId after) {
  const MlpDescription& mlp = stack.model.mlp;
  if (!mlp.gated) return {mlp.activation == Activation::Relu ? after : before};
  std::vector<Saved> kept = {before};
  const int intermediates = gate_intermediates(mlp.activation);
  if (stack.implementation.gate == GatedActivation::Separate && intermediates > 0) {
    kept.emplace_back(after, SavedAs::Like, intermediates);
  }
  return kept;
}

}  // namespace

TensorId add_mlp_parts(BlockBuilder& block, const Stack& stack, TensorId in,
                       const MlpParts& parts) {
  const MlpDescription& mlp = stack.model.mlp;
  Linear up{.name = parts.in_name,
            .input = in,
            .contracted = {stack.hidden},
            .outputs = {parts.inner},
            .bias = parts.bias,
            .kind = parts.kind,
            .per_item = parts.per_item,
            .useful_fraction = parts.useful_fraction};
  if (mlp.gated) up.outputs = {block.dim("gate_and_up", DimRole::Other, 2), parts.inner};
  up.products = mlp.gated ? 2 : 1;
  const TensorId before = block.linear(up);

  Operator activation;
  activation.name = parts.activation_name;
  activation.kind = OperatorKind::Elementwise;
  activation.modules = parts.activation;
  activation.passes = mlp.gated ? MemoryBound::GatedActivation : MemoryBound::Activation;
  activation.loop = concat(without(block.dims(in), {stack.hidden}), {parts.inner});
  activation.inputs = {before};
  activation.outputs = {block.tensor(parts.activation_name, activation.loop)};
  activation.saved = kept_by_activation(stack, before, activation.outputs.front());
  activation.extra_backward_passes = mlp.gated ? 2.0 : 1.0;  // the saved input
  const bool weighted = parts.weights.has_value();
  const bool one_kernel =
      mlp.gated && stack.implementation.expert_weights == ExpertWeights::InActivation;
  if (weighted && one_kernel) activation.inputs.push_back(*parts.weights);
  TensorId after = block.add(activation).outputs.front();
  if (weighted && !one_kernel) {
    const TensorId plain = after;
    const Dims loop = block.dims(plain);
    after = block.elementwise(parts.activation_name + "_weighting", {plain, *parts.weights}, loop);
    block.save_input(plain);
  }

  return block.linear({.name = parts.out_name,
                       .input = after,
                       .contracted = {parts.inner},
                       .outputs = {stack.hidden},
                       .bias = parts.bias,
                       .kind = parts.kind,
                       .per_item = parts.per_item,
                       .useful_fraction = parts.useful_fraction});
}

TensorId add_mlp(BlockBuilder& block, const Stack& stack, TensorId in) {
  const auto part = block.part(LayerModule::Mlp);
  MlpParts parts{.in_name = "mlp_in", .activation_name = "activation", .out_name = "mlp_out"};
  const bool mixed = stack.model.decoder.has_value();
  parts.inner = block.dim(mixed ? stack.name + "_ffn" : "ffn", DimRole::Ffn, stack.mlp_width);
  parts.bias = stack.model.mlp.bias ? Bias::Yes : Bias::No;
  return add_mlp_parts(block, stack, in, parts);
}

}  // namespace plansearch
