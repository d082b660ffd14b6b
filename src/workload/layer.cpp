// SPDX-License-Identifier: Apache-2.0
// One transformer layer: the order of norms, attention, MLP and residual additions.
#include "plansearch/error.hpp"
#include "workload/layer_parts.hpp"

namespace plansearch {
namespace {

TensorId add_feed_forward(BlockBuilder& block, const Stack& stack, const LayerVariant& variant,
                          TensorId in) {
  return variant.experts ? add_experts(block, stack, in) : add_mlp(block, stack, in);
}

/// What attention and MLP read.
TensorId add_input_norm(BlockBuilder& block, const Stack& stack, const std::string& name,
                        TensorId in) {
  const auto part = block.part(LayerModule::LayerNorm);
  return add_norm(block, stack, name, in);
}

TensorId add_parallel_layer(BlockBuilder& block, const Stack& stack, const LayerVariant& variant,
                            TensorId stream) {
  const bool two = stack.model.norm.placement == NormPlacement::ParallelTwo;
  const TensorId norm1 = add_input_norm(block, stack, "norm1", stream);
  const TensorId norm2 = two ? add_input_norm(block, stack, "norm2", stream) : norm1;
  const TensorId attended = add_attention(block, stack, norm1, variant.span);
  const TensorId widened = add_feed_forward(block, stack, variant, norm2);
  const TensorId first = add_residual(block, stack, "residual1", attended, stream);
  return add_residual(block, stack, "residual2", widened, first);
}

/// One sub-layer with its norms: `number` counts the norms and residuals of the layer.
template <typename Branch>
TensorId add_sublayer(BlockBuilder& block, const Stack& stack, int number, TensorId stream,
                      const Branch& branch, bool bare = false) {
  const std::string n = std::to_string(number);
  if (bare) return add_residual(block, stack, "residual" + n, branch(stream), stream);
  switch (stack.model.norm.placement) {
    case NormPlacement::Pre:
      return add_residual(block, stack, "residual" + n,
                          branch(add_input_norm(block, stack, "norm" + n, stream)), stream);
    case NormPlacement::Post:
      return add_norm(block, stack, "norm" + n,
                      add_residual(block, stack, "residual" + n, branch(stream), stream));
    case NormPlacement::Sandwich: {
      const TensorId out = branch(add_input_norm(block, stack, "norm" + n, stream));
      const TensorId after = add_norm(block, stack, "post_norm" + n, out);
      return add_residual(block, stack, "residual" + n, after, stream);
    }
    case NormPlacement::AfterBranch:
      return add_residual(block, stack, "residual" + n,
                          add_norm(block, stack, "norm" + n, branch(stream)), stream);
    case NormPlacement::Parallel:
    case NormPlacement::ParallelTwo:
      break;
  }
  throw InternalError("a parallel layer has no sub-layers");
}

}  // namespace

TensorId add_norm(BlockBuilder& block, const Stack& stack, const std::string& name, TensorId in) {
  const NormKind kind = stack.model.norm.kind;
  const Dims weights = kind == NormKind::LayerNormPlain ? Dims{} : Dims{stack.hidden};
  const TensorId out = block.norm(name, in, weights, {stack.hidden}, kind != NormKind::RmsNorm,
                                  kind == NormKind::LayerNorm);
  if (kind == NormKind::RmsNorm && stack.implementation.norm == NormInput::Single) {
    block.keep_copies(in, out);
  }
  return out;
}

TensorId add_residual(BlockBuilder& block, const Stack& stack, const std::string& name,
                      TensorId branch, TensorId stream) {
  Operator op;
  op.name = name;
  op.kind = OperatorKind::Elementwise;
  op.loop = stack.stream();
  op.inputs = {branch, stream};
  op.outputs = {block.tensor(name, op.loop)};
  op.passes = MemoryBound::Residual;
  if (stack.model.dropout > 0.0) {
    op.passes = MemoryBound::DropoutResidual;
    const TensorId mask = block.tensor(name + ".mask", op.loop, ElementClass::Mask);
    op.outputs.push_back(mask);
    op.saved = {mask};
  }
  return block.add(op).outputs.front();
}

TensorId add_layer(BlockBuilder& block, const Stack& stack, const LayerVariant& variant,
                   TensorId stream, std::optional<TensorId> memory) {
  const NormPlacement placement = stack.model.norm.placement;
  if (placement == NormPlacement::Parallel || placement == NormPlacement::ParallelTwo) {
    PLANSEARCH_CHECK(!memory.has_value());
    return add_parallel_layer(block, stack, variant, stream);
  }
  int number = 1;
  TensorId now = add_sublayer(
      block, stack, number++, stream,
      [&](TensorId in) { return add_attention(block, stack, in, variant.span); }, variant.bare);
  if (memory.has_value()) {
    now = add_sublayer(block, stack, number++, now,
                       [&](TensorId in) { return add_cross_attention(block, stack, in, *memory); });
  }
  return add_sublayer(block, stack, number, now,
                      [&](TensorId in) { return add_feed_forward(block, stack, variant, in); });
}

}  // namespace plansearch
