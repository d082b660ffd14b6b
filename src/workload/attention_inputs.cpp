// SPDX-License-Identifier: Apache-2.0
// Computes: the operators in front of attention: heads of multi-head latent attention, whose queries,
//           and keys and values together, pass through low-rank latents (a few rotary features of
//           the key are shared by all heads); of attention to some of the keys an indexer that
//           scores and chooses them, and keys of several tokens as one.
// Source: DeepSeek-V2 (arXiv:2405.04434, section 2.1); DeepSeek-V3.2 (inference/model.py: Indexer)
//         and DeepSeek-V4 (transformers, models/deepseek_v4: compressors, indexer): scores sum over
//         heads what a weight makes of a product; pooled keys are means of the tokens of a window,
//         weighted by a softmax.
// Assumes: an indexer is not trained by the loss of the network (its choice has no gradient).
// Units: elements.
// Checked by: tests/unit/workload/recurrence_test.cpp, latent_attention_test.cpp
#include <algorithm>

#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

/// The first products: out of the stream, in one launch where the queries have a latent too.
struct Latents {
  std::optional<TensorId> query;
  TensorId key_value{};
  TensorId rope_key{};
};

Latents project_down(BlockBuilder& block, const Stack& stack, TensorId in, DimId rank, DimId rope) {
  const LatentAttention& latent = *stack.model.attention.latent;
  const auto down = [&](const std::string& name, DimId size) {
    return block.linear({.name = name,
                         .input = in,
                         .contracted = {stack.hidden},
                         .outputs = {size},
                         .bias = stack.model.attention.query_key_value_bias ? Bias::Yes : Bias::No,
                         .fused_key = "down"});
  };
  Latents out;
  if (latent.query_rank.has_value()) {
    out.query = down("query_down",
                     block.dim(stack.prefix + "query_latent", DimRole::Latent, *latent.query_rank));
  }
  out.key_value = down("kv_down", rank);
  out.rope_key = down("rope_key", rope);
  return out;
}

/// The tensor that queries are projected from: their latent, normalised, or the stream.
TensorId query_source(BlockBuilder& block, TensorId in, std::optional<TensorId> compressed) {
  if (!compressed.has_value()) return in;
  const DimId rank = block.dims(*compressed).back();
  return block.norm("query_norm", *compressed, {rank}, {rank}, false, false);
}

TensorId expand_query(BlockBuilder& block, const Stack& stack, TensorId from,
                      const std::string& name, DimId size) {
  return block.linear({.name = name,
                       .input = from,
                       .contracted = {block.dims(from).back()},
                       .outputs = {head_dimension(block, stack), size},
                       .fused_key = name == "query" || name == "query_up" ? "" : "query_up"});
}

/// Queries that went through the key's product, one key of latent and rotary features for all heads,
/// and its latent as the value.
void absorb(BlockBuilder& block, const Stack& stack, const Latents& down, TensorId source,
            Heads& out) {
  const LatentAttention& latent = *stack.model.attention.latent;
  const DimId rank = block.dims(down.key_value).back();
  const DimId rope = block.dims(down.rope_key).back();
  const DimId nope = block.dim(stack.prefix + "nope_size", DimRole::HeadSize, latent.nope_size);
  const DimId heads = head_dimension(block, stack);
  const DimId one = block.dim(stack.prefix + "latent_key", DimRole::KvHead, 1);
  out.query_size = block.dim(stack.prefix + "latent_key_size", DimRole::HeadSize,
                             latent.kv_rank + latent.rope_size);
  out.value_size = block.dim(stack.prefix + "latent_value_size", DimRole::HeadSize, latent.kv_rank);
  const TensorId plain = expand_query(block, stack, source, "query_nope", nope);
  const TensorId turned = expand_query(block, stack, source, "query_rope", rope);
  const TensorId normed = block.norm("kv_norm", down.key_value, {rank}, {rank}, false, false);
  const TensorId met = block.linear({.name = "key_up",
                                     .input = plain,
                                     .contracted = {nope},
                                     .outputs = {rank},
                                     .per_item = {heads}});
  const Dims tokens = {stack.batch, stack.tokens};
  Operator assemble;
  assemble.name = "rotary";
  assemble.kind = OperatorKind::Elementwise;
  assemble.loop = concat(block.dims(met), {rope});
  assemble.inputs = {met, turned, normed, down.rope_key};
  out.query = block.tensor("rotary.query", concat(tokens, {heads, out.query_size}));
  out.key = block.tensor("rotary.key", concat(tokens, {one, out.query_size}));
  out.value = block.tensor("rotary.value", concat(tokens, {one, out.value_size}));
  assemble.outputs = {out.query, out.key, out.value};
  block.add(assemble);
  out.value_storage = {out.key};
}

}  // namespace

Heads add_latent_heads(BlockBuilder& block, const Stack& stack, TensorId in) {
  const LatentAttention& latent = *stack.model.attention.latent;
  const DimId heads = head_dimension(block, stack);
  const auto size = [&](const char* name, std::int64_t extent) {
    return block.dim(stack.prefix + name, DimRole::HeadSize, extent);
  };
  Heads out;
  const DimId rank = block.dim(stack.prefix + "kv_latent", DimRole::Latent, latent.kv_rank);
  const DimId rope = size("rope_size", latent.rope_size);
  const Latents down = project_down(block, stack, in, rank, rope);
  const auto part = block.part(LayerModule::MlaUpProjection);
  const TensorId source = query_source(block, in, down.query);
  if (down.query) out.latent = source;
  if (latent.absorbed) {
    absorb(block, stack, down, source, out);
    return out;
  }
  out.query_size = size("query_key_size", latent.nope_size + latent.rope_size);
  out.value_size = size("value_size", latent.value_size);
  const DimId both = size("key_and_value_size", latent.nope_size + latent.value_size);
  const TensorId query =
      expand_query(block, stack, source, down.query ? "query_up" : "query", out.query_size);
  const TensorId normed = block.norm("kv_norm", down.key_value, {rank}, {rank}, false, false);
  const TensorId expanded = block.linear(
      {.name = "kv_up", .input = normed, .contracted = {rank}, .outputs = {heads, both}});

  // Splits the expanded pair, turns the positions in and copies the shared features to every head.
  const Dims tokens = {stack.batch, stack.tokens, heads};
  Operator assemble;
  assemble.name = "rotary";
  assemble.kind = OperatorKind::Elementwise;
  assemble.loop = block.dims(query);
  assemble.inputs = {query, down.rope_key, expanded};
  out.query = block.tensor("rotary.query", concat(tokens, {out.query_size}));
  out.key = block.tensor("rotary.key", concat(tokens, {out.query_size}));
  out.value = block.tensor("rotary.value", concat(tokens, {out.value_size}));
  assemble.outputs = {out.query, out.key, out.value};
  block.add(assemble);
  if (stack.implementation.value == ValueStorage::View) out.value_storage = {expanded};
  return out;
}

Dims chosen_dims(BlockBuilder& block, const Stack& stack, const IndexDescription& index) {
  const std::int64_t tokens = block.extent(stack.tokens);
  const DimId kept = block.dim("chosen_keys", DimRole::Other, std::min(index.keys, tokens));
  return {stack.batch, stack.tokens, kept};
}

PooledKeys add_pool(BlockBuilder& block, const Stack& stack, TensorId in, DimId size,
                    const std::string& prefix) {
  const PoolDescription& pool = *stack.model.attention.pool;
  const std::int64_t windows = std::max<std::int64_t>(1, block.extent(stack.tokens) / pool.ratio);
  const DimId pooled = block.dim(stack.prefix + "pooled_tokens", DimRole::Sequence, windows);
  const DimId taps = block.dim(stack.prefix + "pooled_window", DimRole::Kernel, pool.ratio);
  const DimId overlap = block.dim(stack.prefix + "pool_overlap", DimRole::Other, pool.overlap);
  const DimId one = block.dim(stack.prefix + "pooled_head", DimRole::KvHead, 1);
  const auto project = [&](const char* name) {
    return block.linear({.name = prefix + name,
                         .input = in,
                         .contracted = {stack.hidden},
                         .outputs = {overlap, size},
                         .fused_key = prefix});
  };
  Operator op;
  op.name = prefix;
  op.loop = {stack.batch, pooled, taps, overlap, size};
  op.inputs = {project("_values"), project("_gates")};
  // Token j of window p, and of the windows before it that are in it too.
  const IndexExpression token{{{pooled, pool.ratio}, {taps, 1}, {overlap, pool.ratio}},
                              -pool.ratio * (pool.overlap - 1),
                              1};
  const auto plain = [](DimId dim) { return IndexExpression{{{dim, 1}}, 0, 1}; };
  op.reads.assign(2, {plain(stack.batch), token, plain(overlap), plain(size)});
  op.parameters = {
      block.parameter(prefix + ".positions", {taps, overlap, size}, ParameterClass::Vector)};
  op.outputs = {block.tensor(prefix, {stack.batch, pooled, size})};
  op.saved = {op.inputs[0], op.inputs[1]};
  const TensorId means = block.add(std::move(op)).outputs.front();
  const TensorId normed = block.norm(prefix + "_norm", means, {size}, {size}, false, false);
  const TensorId keys =
      block.elementwise(prefix + "_rotary", {normed}, {stack.batch, pooled, one, size});
  block.save_at_producer(keys);
  return {keys, pooled};
}

TensorId add_index(BlockBuilder& block, const Stack& stack, TensorId in, const Heads& heads) {
  const AttentionDescription& a = stack.model.attention;
  const IndexDescription& index = *a.index;
  const std::size_t first = block.operators();
  const DimId count = block.dim(stack.prefix + "index_heads", DimRole::Other, index.heads);
  const DimId size = block.dim(stack.prefix + "index_size", DimRole::HeadSize, index.size);
  const TensorId source = heads.latent.value_or(in);
  const TensorId query = block.linear({.name = "index_query",
                                       .input = source,
                                       .contracted = {block.dims(source).back()},
                                       .outputs = {count, size}});
  TensorId key{};
  std::int64_t ratio = 1;
  if (a.pool) {
    key = add_pool(block, stack, in, size, "index_pool").keys;
    ratio = a.pool->ratio;
  } else {
    key = block.linear(
        {.name = "index_key", .input = in, .contracted = {stack.hidden}, .outputs = {size}});
    key = block.norm("index_key_norm", key, {size}, {size}, true, true);
  }
  const TensorId weights = block.linear(
      {.name = "index_weights", .input = in, .contracted = {stack.hidden}, .outputs = {count}});
  const TensorId weighted =
      block.elementwise("index_weighting", {query, weights}, Dims(block.dims(query)));
  const DimId read = block.dims(key)[1];
  const std::int64_t keys = block.extent(read);
  const std::int64_t tokens = block.extent(stack.tokens);
  Operator op;
  op.name = "index";
  op.kind = OperatorKind::Scores;
  op.loop = {stack.batch, count, stack.tokens,
             block.dim(block.name_of(read) + "_keys", DimRole::KeySequence, keys), size};
  op.inputs = {weighted, key};
  op.outputs = {block.tensor("chosen", chosen_dims(block, stack, index), ElementClass::Statistic)};
  op.flops_per_point = 2.0;
  op.useful_fraction = ratio > 1 ? pooled_fraction(tokens, keys, ratio, keys)
                                 : visible_fraction(tokens, keys, AttentionSpan{});
  block.add(std::move(op));
  const TensorId chosen = block.last().outputs.front();
  block.detach(first);
  return chosen;
}

}  // namespace plansearch
