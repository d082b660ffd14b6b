// SPDX-License-Identifier: Apache-2.0
// Computes: the operators in front of attention to some of the keys: an indexer that scores and
//           chooses them, and keys of several tokens as one.
// Source: DeepSeek-V3.2 (inference/model.py: Indexer) and DeepSeek-V4 (transformers,
//         models/deepseek_v4: compressors, indexer): scores sum over heads what a weight makes of a
//         product; pooled keys are means of the tokens of a window, weighted by a softmax.
// Assumes: an indexer is not trained by the loss of the network (its choice has no gradient).
// Units: elements.
// Checked by: tests/unit/workload/recurrence_test.cpp
#include <algorithm>

#include "workload/block_builder.hpp"

namespace plansearch {

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
