// SPDX-License-Identifier: Apache-2.0
// The MLP: one matrix product out of the stream, an activation, one product back.
#include "workload/layer_parts.hpp"

namespace plansearch {

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
  activation.loop = concat(without(block.dims(in), {stack.hidden}), {parts.inner});
  activation.inputs = {before};
  activation.outputs = {block.tensor(parts.activation_name, activation.loop)};
  activation.saved = {before};
  activation.extra_backward_passes = mlp.gated ? 2.0 : 1.0;  // the saved input
  TensorId after = block.add(activation).outputs.front();
  if (parts.weights.has_value()) {
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
  MlpParts parts{.in_name = "mlp_in", .activation_name = "activation", .out_name = "mlp_out"};
  const bool mixed = stack.model.decoder.has_value();
  parts.inner = block.dim(mixed ? stack.name + "_ffn" : "ffn", DimRole::Ffn, stack.mlp_width);
  parts.bias = stack.model.mlp.bias ? Bias::Yes : Bias::No;
  return add_mlp_parts(block, stack, in, parts);
}

}  // namespace plansearch
