// SPDX-License-Identifier: Apache-2.0
// Self- and cross-attention around the core: projections, query-key norm, rotary, output.

#include <algorithm>
#include <cmath>

#include "plansearch/error.hpp"
#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

Bias bias_if(bool present) {
  return present ? Bias::Yes : Bias::No;
}

TensorId normalise_heads(BlockBuilder& block, const Stack& stack, const std::string& name,
                         TensorId in, DimId heads, DimId size) {
  const QkNorm kind = stack.model.attention.qk_norm;
  const Dims normalised = kind == QkNorm::FullWidth ? Dims{heads, size} : Dims{size};
  Dims weights = kind == QkNorm::EachHead ? Dims{heads, size} : normalised;
  if (kind == QkNorm::Plain) weights.clear();
  const bool layer_norm = stack.model.norm.kind != NormKind::RmsNorm;
  return block.norm(name, in, weights, normalised, layer_norm, false);
}

/// Queries and keys with their positions turned in.
void add_rotary(BlockBuilder& block, Heads& heads) {
  Operator op;
  op.name = "rotary";
  op.kind = OperatorKind::Elementwise;
  op.passes = MemoryBound::Rotary;
  op.loop = block.dims(heads.query);
  op.inputs = {heads.query, heads.key};
  op.outputs = {block.tensor("rotary.query", block.dims(heads.query)),
                block.tensor("rotary.key", block.dims(heads.key))};
  heads.query = op.outputs[0];
  heads.key = op.outputs[1];
  block.add(op);
}

Heads project_heads(BlockBuilder& block, const Stack& stack, TensorId query_in, TensorId memory,
                    const std::string& prefix) {
  const AttentionDescription& a = stack.model.attention;
  const DimId heads = head_dimension(block, stack);
  const DimId kv_heads = block.dim(stack.prefix + "kv_heads", DimRole::KvHead, a.kv_heads);
  const DimId size = block.dim(stack.prefix + "head_size", DimRole::HeadSize, a.head_size);
  const std::int64_t features = a.value_size.value_or(a.head_size);
  const DimId value_size =
      features == a.head_size ? size
                              : block.dim(stack.prefix + "value_size", DimRole::HeadSize, features);
  const bool self = query_in == memory;
  const std::string fused = self ? prefix + "qkv" : prefix + "kv";
  const auto project = [&](const char* name, TensorId in, Dims made, const std::string& key) {
    return block.linear({.name = prefix + name,
                         .input = in,
                         .contracted = {block.dims(in).back()},
                         .outputs = std::move(made),
                         .bias = bias_if(a.query_key_value_bias),
                         .fused_key = key});
  };
  Heads out;
  out.query_size = size;
  out.value_size = value_size;
  TensorId narrow{};
  if (a.query_rank) {
    const DimId rank = block.dim(stack.prefix + "query_rank", DimRole::Latent, *a.query_rank);
    narrow = project("query_down", query_in, {rank}, fused);
  } else {
    out.query = project("query", query_in, {heads, size}, self ? fused : std::string());
  }
  out.key = project("key", memory, {kv_heads, size}, fused);
  if (!a.value_is_key) out.value = project("value", memory, {kv_heads, value_size}, fused);
  if (a.gate != OutputGate::None) {
    const Dims made = a.gate == OutputGate::Full ? Dims{heads, value_size} : Dims{heads};
    out.gate = project("gate", query_in, made, fused);
  }
  if (a.query_rank) {
    const Dims rank = {block.dims(narrow).back()};
    out.latent = block.norm("query_norm", narrow, rank, rank, false, false);
    out.query = project("query_up", *out.latent, {heads, size}, "");
  }
  if (a.qk_norm == QkNorm::KeyWeights) {
    out.query = block.norm("query_head_norm", out.query, {}, {size}, false, false);
    out.key = block.norm("key_norm", out.key, {size}, {size}, false, false);
  } else if (a.qk_norm != QkNorm::None) {
    out.query = normalise_heads(block, stack, prefix + "query_norm", out.query, heads, size);
    out.key = normalise_heads(block, stack, prefix + "key_norm", out.key, kv_heads, size);
  }
  if (a.value_is_key) out.value = out.key;
  return out;
}

/// Every group of heads by itself, to a few features each, in front of the product of all.
TensorId project_groups(BlockBuilder& block, const Stack& stack, TensorId context,
                        DimId value_size) {
  const AttentionDescription& a = stack.model.attention;
  const DimId groups = block.dim(stack.prefix + "output_groups", DimRole::Head, a.output_groups);
  const DimId inside =
      block.dim(stack.prefix + "heads_of_group", DimRole::Other, a.heads / a.output_groups);
  const DimId rank = block.dim(stack.prefix + "output_rank", DimRole::HeadSize, a.output_rank);
  Operator op;
  op.name = "projection_down";
  op.kind = OperatorKind::Matmul;
  op.loop = {stack.batch, stack.tokens, inside, value_size, groups, rank};
  op.inputs = {context};
  const auto plain = [](DimId dim) { return IndexExpression{{{dim, 1}}, 0, 1}; };
  const IndexExpression head{{{groups, block.extent(inside)}, {inside, 1}}, 0, 1};
  op.reads = {{plain(stack.batch), plain(stack.tokens), head, plain(value_size)}};
  op.parameters = {block.parameter(op.name + ".weight", {groups, inside, value_size, rank},
                                   ParameterClass::Matrix)};
  op.outputs = {block.tensor(op.name, {stack.batch, stack.tokens, groups, rank})};
  op.saved = {context};
  op.flops_per_point = 2.0;
  op.backward_kernels = 2;
  const TensorId narrow = block.add(std::move(op)).outputs.front();
  return block.linear({.name = "projection",
                       .input = narrow,
                       .contracted = {groups, rank},
                       .outputs = {stack.hidden}});
}

TensorId project_out(BlockBuilder& block, const Stack& stack, const std::string& prefix,
                     TensorId context, DimId value_size) {
  if (stack.model.attention.output_groups > 0)
    return project_groups(block, stack, context, value_size);
  return block.linear({.name = prefix + "projection",
                       .input = context,
                       .contracted = {head_dimension(block, stack), value_size},
                       .outputs = {stack.hidden},
                       .bias = bias_if(stack.model.attention.output_bias)});
}

/// A value that is a view of the one product's result keeps all of it, which shows where rotation
/// makes new queries and keys.
void view_value(const Stack& stack, Heads& heads) {
  const bool view = stack.implementation.value == ValueStorage::View;
  if (!view || !stack.model.attention.fused_projection) return;
  heads.value_storage = {heads.query, heads.key, heads.value};
}

void keep_heads(BlockBuilder& block, const Heads& heads) {
  block.save_at_producer(heads.query);
  block.save_at_producer(heads.key);
  for (const TensorId id : heads.value_storage) block.save_at_producer(id);
  if (heads.value_storage.empty()) block.save_at_producer(heads.value);
}

/// Keys and values that were copied to every query head: for unfused products, or by the model.
void keep_repeated_heads(BlockBuilder& block, const Stack& stack, const Heads& heads) {
  block.save_at_producer(heads.query);
  const AttentionDescription& a = stack.model.attention;
  const int copies = static_cast<int>(a.heads / a.kv_heads);
  block.save_at_producer({heads.key, SavedAs::Like, copies});
  block.save_at_producer({heads.value, SavedAs::Like, copies});
}

}  // namespace

double visible_fraction(std::int64_t queries, std::int64_t keys, AttentionSpan span) {
  if (span.visibility == Visibility::All && !span.window.has_value()) return 1.0;
  PLANSEARCH_CHECK(queries == keys);
  const auto s = static_cast<double>(queries);
  const double w = static_cast<double>(std::min(span.window.value_or(queries), queries));
  if (span.visibility == Visibility::All) {
    // Query i sees itself and up to `side` tokens on either side, fewer at the ends.
    const auto window = static_cast<double>(*span.window);
    const double side = std::min(std::floor(window / 2.0), s - 1.0);
    return std::min(1.0, (s + 2.0 * side * s - side * (side + 1.0)) / (s * s));
  }
  if (span.window_kind == WindowKind::Chunked) {
    const double chunks = std::floor(s / w);
    const double rest = s - chunks * w;
    return (chunks * w * (w + 1.0) + rest * (rest + 1.0)) / 2.0 / (s * s);
  }
  // Query i (from 1) sees min(i, w) keys.
  return (w * (w + 1.0) / 2.0 + (s - w) * w) / (s * s);
}

double pooled_fraction(std::int64_t queries, std::int64_t keys, std::int64_t ratio,
                       std::int64_t most) {
  double seen = 0.0;  // of query i: whole windows before it, at most so many
  const std::int64_t full = std::min(most, keys);
  const std::int64_t rising = std::min(full * ratio, queries);
  const std::int64_t windows = rising / ratio;
  seen += static_cast<double>(ratio) * static_cast<double>(windows) *
          static_cast<double>(windows - 1) / 2.0;
  seen += static_cast<double>(rising - windows * ratio) * static_cast<double>(windows);
  seen += static_cast<double>(queries - rising) * static_cast<double>(full);
  return seen / (static_cast<double>(queries) * static_cast<double>(keys));
}

double visible_fraction(std::int64_t tokens, const Documents& documents, AttentionSpan span) {
  double pairs = 0.0;
  double length = 0.0;
  for (const DocumentLength& document : documents) {
    const std::int64_t own = std::min(document.tokens, tokens);
    const auto squared = static_cast<double>(own) * static_cast<double>(own);
    pairs += document.share * squared * visible_fraction(own, own, span);
    length += document.share * static_cast<double>(own);
  }
  return pairs / (length * static_cast<double>(tokens));
}

DimId head_dimension(BlockBuilder& block, const Stack& stack) {
  return block.dim(stack.prefix + "heads", DimRole::Head, stack.model.attention.heads);
}

namespace {

/// The result of attention times a gate that reads what attention reads.
TensorId add_output_gate(BlockBuilder& block, const Heads& heads, TensorId context) {
  if (!heads.gate) return context;
  const TensorId out =
      block.elementwise("attention_gate", {context, *heads.gate}, Dims(block.dims(context)));
  block.save_at_producer(*heads.gate);
  return out;
}

}  // namespace

TensorId add_attention(BlockBuilder& block, const Stack& stack, TensorId in, AttentionSpan span,
                       std::optional<TensorId>& chosen) {
  const AttentionDescription& a = stack.model.attention;
  Heads heads;
  if (a.latent.has_value()) {
    heads = add_latent_heads(block, stack, in);
  } else {
    heads = project_heads(block, stack, in, in, "");
    view_value(stack, heads);
    if (a.positions == PositionKind::Rotary) add_rotary(block, heads);
  }
  const bool by_model =
      a.repeats_heads && stack.implementation.grouped_heads == GroupedHeads::AsModel;
  if (a.kv_heads < a.heads && (by_model || stack.attention == AttentionKind::Unfused)) {
    keep_repeated_heads(block, stack, heads);
  } else {
    keep_heads(block, heads);
  }
  std::optional<PooledKeys> pooled;
  if (a.pool) pooled = add_pool(block, stack, in, heads.query_size, "pool");
  if (a.index && !chosen) chosen = add_index(block, stack, in, heads);
  const CoreKeys keys{.chosen = a.index ? chosen : std::nullopt};
  TensorId context = add_attention_core(block, stack, heads, span, "", pooled ? CoreKeys{} : keys);
  if (pooled) {
    Heads far = heads;
    far.key = far.value = pooled->keys;
    const TensorId more = add_attention_core(block, stack, far, span, "pooled_",
                                             {.chosen = keys.chosen, .ratio = a.pool->ratio});
    context = block.elementwise("context_sum", {context, more}, Dims(block.dims(context)));
  }
  context = add_output_gate(block, heads, context);
  if (!a.latent || !a.latent->absorbed)
    return project_out(block, stack, "", context, heads.value_size);
  const DimId value =
      block.dim(stack.prefix + "value_size", DimRole::HeadSize, a.latent->value_size);
  context = block.linear({.name = "value_up",
                          .input = context,
                          .contracted = {heads.value_size},
                          .outputs = {value},
                          .per_item = {head_dimension(block, stack)}});
  return project_out(block, stack, "", context, value);
}

TensorId add_cross_attention(BlockBuilder& block, const Stack& stack, TensorId in,
                             TensorId memory) {
  const Heads heads = project_heads(block, stack, in, memory, "cross_");
  keep_heads(block, heads);
  const TensorId context =
      add_attention_core(block, stack, heads, {Visibility::All, std::nullopt}, "cross_");
  return project_out(block, stack, "cross_", context, heads.value_size);
}

// The attention core. Unfused it materialises scores of queries x keys per head: softmax output,
// dropout mask and dropped output are kept, 2 + 1 + 2 bytes (the 5as/h of Korthikanti et al. 2022,
// arXiv:2205.05198, equation 1). Fused it keeps one statistic per row.

namespace {

std::vector<TensorId> joined(std::vector<TensorId> a, const std::vector<TensorId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Attention to chosen keys, by its name among kernels.
constexpr const char* kSelectedKernel = "selected_attention";

struct Core {
  BlockBuilder& block;
  const Stack& stack;
  const Heads& heads;
  std::string prefix{};
  DimId head{};
  DimId keys{};
  double useful = 1.0;
  bool windowed = false;
  double selected = 0.0;
  std::int64_t ratio = 1;  ///< tokens from one key to the next
  std::optional<TensorId> chosen{};

  [[nodiscard]] Dims scores() const { return {stack.batch, head, stack.tokens, keys}; }
  [[nodiscard]] Dims context() const { return {stack.batch, stack.tokens, head, heads.value_size}; }

  /// Sink logits and the relative bias table, where the model has them.
  void attach_parameters(Operator& op) const {
    const AttentionDescription& a = stack.model.attention;
    if (a.sinks && ratio == 1)
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
  if (core.chosen) {
    op.selected = core.selected;
    op.kernel = kSelectedKernel;
    op.saved.emplace_back(*core.chosen);
  }
  // Five products instead of two: the scores are computed again.
  op.backward_flops_factor = (2.0 * value + 3.0 * query) / (query + value);
  op.backward_kernels = 2;
  core.block.add(op);
  return context;
}

/// One of the two products of the unfused core, over the pairs of tokens and `contracted`.
TensorId add_product(const Core& core, const std::string& name, std::vector<TensorId> inputs,
                     DimId contracted, const Dims& made, std::vector<Saved> saved) {
  Operator op;
  op.name = core.prefix + name;
  op.kind = OperatorKind::BatchedMatmul;
  op.loop = concat(core.scores(), {contracted});
  op.inputs = std::move(inputs);
  op.outputs = {core.block.tensor(op.name, made)};
  op.saved = std::move(saved);
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

}  // namespace

TensorId add_attention_core(BlockBuilder& block, const Stack& stack, const Heads& heads,
                            AttentionSpan span, const std::string& prefix, CoreKeys from) {
  const DimId read_tokens = block.dims(heads.key)[1];
  const std::int64_t keys = block.extent(read_tokens);
  Core core{.block = block, .stack = stack, .heads = heads, .prefix = prefix};
  core.head = head_dimension(block, stack);
  core.keys = block.dim(block.name_of(read_tokens) + "_keys", DimRole::KeySequence, keys);
  core.chosen = from.chosen;
  core.ratio = from.ratio;
  const auto& index = stack.model.attention.index;
  if (from.chosen) core.selected = static_cast<double>(index->keys);
  if (from.ratio > 1) {
    core.useful = pooled_fraction(block.extent(stack.tokens), keys, from.ratio,
                                  from.chosen ? index->keys : keys);
  } else {
    // A query that chooses k of the keys before it attends to as many as one with a window of k.
    if (from.chosen) span.window = std::min(index->keys, span.window.value_or(index->keys));
    core.useful = stack.documents.empty() ? visible_fraction(block.extent(stack.tokens), keys, span)
                                          : visible_fraction(keys, stack.documents, span);
    core.windowed = span.window.has_value() && !from.chosen;
  }
  if (stack.attention == AttentionKind::Fused) return add_fused(core);
  const TensorId scores =
      add_product(core, "scores", {heads.query, heads.key}, heads.query_size, core.scores(), {});
  const TensorId weights = add_attention_dropout(core, add_softmax(core, scores));
  return add_product(core, "context", {weights, heads.value}, heads.value_size, core.context(),
                     {weights});
}

}  // namespace plansearch
