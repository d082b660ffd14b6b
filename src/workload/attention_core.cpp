// SPDX-License-Identifier: Apache-2.0
// The attention core. Unfused it materialises scores of queries x keys per head: softmax output,
// dropout mask and dropped output are kept, 2 + 1 + 2 bytes (the 5as/h of Korthikanti et al. 2022,
// arXiv:2205.05198, equation 1). Fused it keeps one statistic per row.
#include "workload/layer_parts.hpp"

namespace plansearch {
namespace {

std::vector<TensorId> joined(std::vector<TensorId> a, const std::vector<TensorId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Core {
  BlockBuilder& block;
  const Stack& stack;
  const Heads& heads;
  std::string prefix{};
  DimId head{};
  DimId keys{};
  double useful = 1.0;
  bool windowed = false;

  [[nodiscard]] Dims scores() const { return {stack.batch, head, stack.tokens, keys}; }
  [[nodiscard]] Dims context() const { return {stack.batch, stack.tokens, head, heads.value_size}; }

  /// Sink logits and the relative bias table, where the model has them.
  void attach_parameters(Operator& op) const {
    const AttentionDescription& a = stack.model.attention;
    if (a.sinks)
      op.parameters.push_back(block.parameter(prefix + "sinks", {head}, ParameterClass::Vector));
  }

  std::vector<TensorId> bias_inputs() const {
    const AttentionDescription& a = stack.model.attention;
    if (a.positions != PositionKind::Relative || !prefix.empty()) return {};
    const DimId buckets = block.dim("relative_buckets", DimRole::Position, a.relative_buckets);
    Operator op;
    op.name = "relative_bias";
    op.kind = OperatorKind::Elementwise;
    op.loop = {buckets, head};
    op.parameters = {block.parameter("relative_bias", op.loop, ParameterClass::Vector,
                                     stack.name + ".relative_bias")};
    op.outputs = {block.tensor("relative_bias", op.loop)};
    return block.add(op).outputs;
  }
};

TensorId add_fused(const Core& core) {
  Operator op;
  op.name = core.prefix + "attention";
  op.kind = OperatorKind::Attention;
  op.modules = bit_of(LayerModule::CoreAttention);
  op.passes = MemoryBound::HeadLayout;
  op.loop = {core.stack.batch, core.head, core.stack.tokens, core.keys, core.heads.value_size};
  op.inputs = joined({core.heads.query, core.heads.key, core.heads.value}, core.bias_inputs());
  core.attach_parameters(op);
  const TensorId context = core.block.tensor(core.prefix + "context", core.context());
  const TensorId statistic =
      core.block.tensor(core.prefix + "log_sum_exp",
                        {core.stack.batch, core.head, core.stack.tokens}, ElementClass::Statistic);
  op.outputs = {context, statistic};
  op.saved = {statistic, context};
  const auto query = static_cast<double>(core.block.extent(core.heads.query_size));
  const auto value = static_cast<double>(core.block.extent(core.heads.value_size));
  op.flops_per_point = 2.0 * (query + value) / value;
  op.useful_fraction = core.useful;
  op.windowed = core.windowed;
  // Five products instead of two: the scores are computed again.
  op.backward_flops_factor = (2.0 * value + 3.0 * query) / (query + value);
  op.backward_kernels = 2;
  core.block.add(op);
  return context;
}

TensorId add_scores(const Core& core) {
  Operator op;
  op.name = core.prefix + "scores";
  op.kind = OperatorKind::BatchedMatmul;
  op.loop = concat(core.scores(), {core.heads.query_size});
  op.inputs = {core.heads.query, core.heads.key};
  op.outputs = {core.block.tensor(core.prefix + "scores", core.scores())};
  op.modules = bit_of(LayerModule::CoreAttention);
  op.flops_per_point = 2.0;
  op.useful_fraction = core.useful;
  op.windowed = core.windowed;
  op.backward_kernels = 2;
  return core.block.add(op).outputs.front();
}

TensorId add_softmax(const Core& core, TensorId scores) {
  Operator op;
  op.name = core.prefix + "softmax";
  op.kind = OperatorKind::Softmax;
  op.passes = MemoryBound::Softmax;
  op.loop = core.scores();
  op.inputs = joined({scores}, core.bias_inputs());
  core.attach_parameters(op);
  op.outputs = {core.block.tensor(core.prefix + "softmax", core.scores())};
  const bool single = core.stack.implementation.softmax == SoftmaxResult::Single;
  op.saved = {{op.outputs.front(), single ? SavedAs::Single : SavedAs::Itself}};
  op.modules = bit_of(LayerModule::CoreAttention);
  op.extra_backward_passes = 1.0;
  return core.block.add(op).outputs.front();
}

TensorId add_attention_dropout(const Core& core, TensorId weights) {
  if (core.stack.model.attention_dropout <= 0.0) return weights;
  Operator op;
  op.name = core.prefix + "attention_dropout";
  op.kind = OperatorKind::Elementwise;
  op.passes = MemoryBound::Dropout;
  op.loop = core.scores();
  op.inputs = {weights};
  const TensorId dropped = core.block.tensor(op.name, core.scores());
  const TensorId mask = core.block.tensor(op.name + ".mask", core.scores(), ElementClass::Mask);
  op.outputs = {dropped, mask};
  op.saved = {mask};
  op.modules = bit_of(LayerModule::CoreAttention);
  core.block.add(op);
  return dropped;
}

TensorId add_context(const Core& core, TensorId weights) {
  Operator op;
  op.name = core.prefix + "context";
  op.kind = OperatorKind::BatchedMatmul;
  op.loop = concat(core.scores(), {core.heads.value_size});
  op.inputs = {weights, core.heads.value};
  op.outputs = {core.block.tensor(core.prefix + "context", core.context())};
  op.saved = {weights};
  op.modules = bit_of(LayerModule::CoreAttention);
  op.flops_per_point = 2.0;
  op.useful_fraction = core.useful;
  op.windowed = core.windowed;
  op.backward_kernels = 2;
  return core.block.add(op).outputs.front();
}

}  // namespace

TensorId add_attention_core(BlockBuilder& block, const Stack& stack, const Heads& heads,
                            AttentionSpan span, const std::string& prefix) {
  const DimId read_tokens = block.dims(heads.key)[1];
  const std::int64_t keys = block.extent(read_tokens);
  Core core{.block = block, .stack = stack, .heads = heads, .prefix = prefix};
  core.head = head_dimension(block, stack);
  core.keys = block.dim(block.name_of(read_tokens) + "_keys", DimRole::KeySequence, keys);
  core.useful = stack.documents.empty() ? visible_fraction(block.extent(stack.tokens), keys, span)
                                        : visible_fraction(keys, stack.documents, span);
  core.windowed = span.window.has_value();
  if (stack.attention == AttentionKind::Fused) return add_fused(core);
  const TensorId weights = add_softmax(core, add_scores(core));
  return add_context(core, add_attention_dropout(core, weights));
}

}  // namespace plansearch
