// SPDX-License-Identifier: Apache-2.0
// Heads of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): queries, and
// keys and values together, pass through low-rank latents; a few rotary features of the key are
// shared by all heads.
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
    out.query = down("query_down", block.dim("query_latent", DimRole::Latent, *latent.query_rank));
  }
  out.key_value = down("kv_down", rank);
  out.rope_key = down("rope_key", rope);
  return out;
}

TensorId expand_query(BlockBuilder& block, const Stack& stack, TensorId in,
                      std::optional<TensorId> compressed, DimId size) {
  const DimId heads = head_dimension(block, stack);
  if (!compressed.has_value()) {
    return block.linear(
        {.name = "query", .input = in, .contracted = {stack.hidden}, .outputs = {heads, size}});
  }
  const DimId rank = block.dims(*compressed).back();
  const TensorId normed = block.norm("query_norm", *compressed, {rank}, {rank}, false, false);
  return block.linear(
      {.name = "query_up", .input = normed, .contracted = {rank}, .outputs = {heads, size}});
}

}  // namespace

Heads add_latent_heads(BlockBuilder& block, const Stack& stack, TensorId in) {
  const LatentAttention& latent = *stack.model.attention.latent;
  const DimId heads = head_dimension(block, stack);
  Heads out;
  out.query_size =
      block.dim("query_key_size", DimRole::HeadSize, latent.nope_size + latent.rope_size);
  out.value_size = block.dim("value_size", DimRole::HeadSize, latent.value_size);
  const DimId rank = block.dim("kv_latent", DimRole::Latent, latent.kv_rank);
  const DimId rope = block.dim("rope_size", DimRole::HeadSize, latent.rope_size);
  const DimId both =
      block.dim("key_and_value_size", DimRole::HeadSize, latent.nope_size + latent.value_size);
  const Latents down = project_down(block, stack, in, rank, rope);
  const auto part = block.part(LayerModule::MlaUpProjection);
  const TensorId query = expand_query(block, stack, in, down.query, out.query_size);
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

}  // namespace plansearch
