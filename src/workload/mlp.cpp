// SPDX-License-Identifier: Apache-2.0
// The MLP: one matrix product out of the stream, an activation, one product back.

#include <cmath>

#include "workload/block_builder.hpp"

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
  const DimId outer = parts.outer.value_or(stack.hidden);
  Linear up{.name = parts.in_name,
            .input = in,
            .contracted = {outer},
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
  activation.loop = concat(without(block.dims(in), {outer}), {parts.inner});
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
                       .outputs = {outer},
                       .bias = parts.bias,
                       .kind = parts.kind,
                       .per_item = parts.per_item,
                       .useful_fraction = parts.useful_fraction});
}

TensorId add_mlp(BlockBuilder& block, const Stack& stack, TensorId in) {
  const auto part = block.part(LayerModule::Mlp);
  MlpParts parts{.in_name = "mlp_in", .activation_name = "activation", .out_name = "mlp_out"};
  const bool mixed = stack.model.decoder.has_value();
  parts.inner =
      block.dim(mixed ? stack.name + "_ffn" : stack.prefix + "ffn", DimRole::Ffn, stack.mlp_width);
  parts.bias = stack.model.mlp.bias ? Bias::Yes : Bias::No;
  return add_mlp_parts(block, stack, in, parts);
}

// Mixture of experts: router, top-k choice, tokens to experts, expert MLPs, tokens back, and shared
// experts.

namespace {

struct RouterOutput {
  TensorId weights{};
  TensorId indices{};
};

TensorId router_input(BlockBuilder& block, const Stack& stack, TensorId in) {
  const RouterInput kept = stack.implementation.router;
  const bool single =
      kept == RouterInput::AsModel ? stack.model.moe->fp32_router : kept == RouterInput::Single;
  if (!single) return in;
  Operator cast;
  cast.name = "router_cast";
  cast.loop = stack.stream();
  cast.inputs = {in};
  cast.outputs = {block.tensor(cast.name, cast.loop, ElementClass::Logit)};
  return block.add(cast).outputs.front();
}

RouterOutput add_router(BlockBuilder& block, const Stack& stack, TensorId in) {
  const MoeDescription& moe = *stack.model.moe;
  const DimId choices = block.dim("expert_choices", DimRole::ExpertChoice, moe.experts + moe.idle);
  const DimId top = block.dim("top_k", DimRole::Other, moe.top_k);
  const TensorId scores = block.linear({.name = "router",
                                        .input = router_input(block, stack, in),
                                        .contracted = {stack.hidden},
                                        .outputs = {choices},
                                        .bias = moe.router_bias ? Bias::Yes : Bias::No,
                                        .element = ElementClass::Logit});
  Operator op;
  op.name = "route";
  op.kind = OperatorKind::Route;
  op.loop = {stack.batch, stack.tokens, choices};
  op.inputs = {scores};
  if (moe.correction_bias) {
    op.parameters = {block.parameter("route.correction", {choices}, ParameterClass::Vector)};
    block.freeze(op.parameters.front());  // moved by the load, not by a gradient
  }
  const Dims chosen = {stack.batch, stack.tokens, top};
  RouterOutput out;
  out.weights = block.tensor("route.weights", chosen, ElementClass::Logit);
  out.indices = block.tensor("route.indices", chosen, ElementClass::Index);
  const TensorId all = block.tensor("route.probabilities", op.loop, ElementClass::Logit);
  const TensorId map = block.tensor("route.map", op.loop, ElementClass::Logit);
  op.outputs = {all, map, out.weights, out.indices};
  op.saved = {scores, all, map, out.indices};
  block.add(op);
  return out;
}

struct Load {
  std::int64_t per_expert = 1;
  double useful = 1.0;
};

Load expert_load(const MoeDescription& moe, std::int64_t tokens) {
  const double balanced =
      static_cast<double>(tokens * moe.top_k) / static_cast<double>(moe.experts + moe.idle);
  const double rows = std::ceil(balanced * moe.capacity_factor.value_or(1.0) - 1e-9);
  const double kept = std::min(balanced, rows);
  return {static_cast<std::int64_t>(std::max(rows, 1.0)), kept / std::max(rows, 1.0)};
}

TensorId add_dispatch(BlockBuilder& block, TensorId in, TensorId indices, const Dims& routed) {
  Operator op;
  op.name = "dispatch";
  op.kind = OperatorKind::Dispatch;
  op.loop = routed;
  op.inputs = {in, indices};
  op.outputs = {block.tensor("dispatch", routed)};
  return block.add(op).outputs.front();
}

/// Whether the weights of the routed tokens are multiplied in where expert outputs come together.
bool weights_outputs(const Stack& stack) {
  const ExpertWeights where = stack.implementation.expert_weights;
  return where == ExpertWeights::AtOutput || where == ExpertWeights::AtOutputSingle;
}

TensorId add_combine(BlockBuilder& block, const Stack& stack, TensorId expert_out,
                     const RouterOutput& route) {
  Operator op;
  op.name = "combine";
  op.kind = OperatorKind::Combine;
  op.loop = {stack.batch, stack.tokens, block.dims(expert_out).back()};
  op.inputs = {expert_out, route.indices};
  if (weights_outputs(stack)) {
    const bool single = stack.implementation.expert_weights == ExpertWeights::AtOutputSingle;
    op.inputs.push_back(route.weights);
    op.saved = {{expert_out, single ? SavedAs::Single : SavedAs::Itself}};
    // The weighted outputs are written and read before they are summed.
    const auto choices = static_cast<double>(stack.model.moe->top_k);
    op.extra_forward_passes = 2.0 * choices;
    op.extra_backward_passes = 2.0 * choices;
  }
  op.outputs = {block.tensor("combine", op.loop)};
  return block.add(op).outputs.front();
}

TensorId add_shared(BlockBuilder& block, const Stack& stack, TensorId in, TensorId routed) {
  const MoeDescription& moe = *stack.model.moe;
  const auto part = block.part(LayerModule::SharedExperts);
  MlpParts parts{
      .in_name = "shared_in", .activation_name = "shared_activation", .out_name = "shared_out"};
  parts.inner = block.dim("shared_ffn", DimRole::Ffn, moe.shared_width);
  TensorId shared = add_mlp_parts(block, stack, in, parts);
  std::vector<TensorId> summed = {routed, shared};
  if (moe.shared_gate) {
    const DimId one = block.dim("shared_gate", DimRole::Other, 1);
    summed.push_back(block.linear(
        {.name = "shared_gate", .input = in, .contracted = {stack.hidden}, .outputs = {one}}));
  }
  const TensorId sum = block.elementwise("shared_add", summed, stack.stream());
  if (moe.shared_gate) block.save_input(shared);  // what the gate multiplies
  return sum;
}

}  // namespace

TensorId add_experts(BlockBuilder& block, const Stack& stack, TensorId in) {
  const MoeDescription& moe = *stack.model.moe;
  const auto part = block.part(LayerModule::Moe);
  const RouterOutput route = add_router(block, stack, in);
  const Load load = expert_load(moe, block.extent(stack.tokens));
  const DimId expert = block.dim("experts", DimRole::Expert, moe.experts);
  const DimId rows = block.dim("routed_tokens", DimRole::Routed, load.per_expert);
  const DimId outer =
      moe.latent > 0 ? block.dim("expert_latent", DimRole::Latent, moe.latent) : stack.hidden;
  TensorId narrow = in;
  if (moe.latent > 0) {
    narrow = block.linear(
        {.name = "latent_in", .input = in, .contracted = {stack.hidden}, .outputs = {outer}});
  }
  const TensorId sent = add_dispatch(block, narrow, route.indices, {expert, rows, outer});

  MlpParts parts{
      .in_name = "expert_in", .activation_name = "expert_activation", .out_name = "expert_out"};
  parts.inner = block.dim("expert_ffn", DimRole::ExpertFfn, moe.expert_width);
  parts.outer = outer;
  parts.bias = moe.expert_bias ? Bias::Yes : Bias::No;
  parts.kind = OperatorKind::GroupedMatmul;
  parts.activation = bit_of(LayerModule::MoeActivation);
  parts.per_item = {expert};
  parts.useful_fraction = load.useful;
  if (!weights_outputs(stack)) parts.weights = route.weights;
  const TensorId out = add_mlp_parts(block, stack, sent, parts);
  TensorId combined = add_combine(block, stack, out, route);
  if (moe.latent > 0) {
    combined = block.linear({.name = "latent_out",
                             .input = combined,
                             .contracted = {outer},
                             .outputs = {stack.hidden}});
  }
  if (moe.shared_width == 0) return combined;
  return add_shared(block, stack, in, combined);
}

}  // namespace plansearch
