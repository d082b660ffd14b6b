// SPDX-License-Identifier: Apache-2.0
// Self- and cross-attention around the core: projections, query-key norm, rotary, output.
#include <algorithm>
#include <cmath>

#include "plansearch/error.hpp"
#include "workload/layer_parts.hpp"

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
  const DimId kv_heads = block.dim("kv_heads", DimRole::KvHead, a.kv_heads);
  const DimId size = block.dim("head_size", DimRole::HeadSize, a.head_size);
  const bool self = query_in == memory;
  const std::string fused = self ? prefix + "qkv" : prefix + "kv";
  const auto project = [&](const char* name, TensorId in, DimId count, const std::string& key) {
    return block.linear({.name = prefix + name,
                         .input = in,
                         .contracted = {stack.hidden},
                         .outputs = {count, size},
                         .bias = bias_if(a.query_key_value_bias),
                         .fused_key = key});
  };
  Heads out;
  out.query_size = size;
  out.value_size = size;
  out.query = project("query", query_in, heads, self ? fused : std::string());
  out.key = project("key", memory, kv_heads, fused);
  out.value = project("value", memory, kv_heads, fused);
  if (a.qk_norm != QkNorm::None) {
    out.query = normalise_heads(block, stack, prefix + "query_norm", out.query, heads, size);
    out.key = normalise_heads(block, stack, prefix + "key_norm", out.key, kv_heads, size);
  }
  return out;
}

TensorId project_out(BlockBuilder& block, const Stack& stack, const std::string& prefix,
                     TensorId context, DimId value_size) {
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
  return block.dim("heads", DimRole::Head, stack.model.attention.heads);
}

TensorId add_attention(BlockBuilder& block, const Stack& stack, TensorId in, AttentionSpan span) {
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
  const TensorId context = add_attention_core(block, stack, heads, span, "");
  return project_out(block, stack, "", context, heads.value_size);
}

TensorId add_cross_attention(BlockBuilder& block, const Stack& stack, TensorId in,
                             TensorId memory) {
  const Heads heads = project_heads(block, stack, in, memory, "cross_");
  keep_heads(block, heads);
  const TensorId context =
      add_attention_core(block, stack, heads, {Visibility::All, std::nullopt}, "cross_");
  return project_out(block, stack, "cross_", context, heads.value_size);
}

}  // namespace plansearch
