// SPDX-License-Identifier: Apache-2.0
// Heads of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): queries, and
// keys and values together, pass through low-rank latents; a few rotary features of the key are
// shared by all heads.
#include "layer_parts.hpp"
#include "plansearch/base/error.hpp"

namespace plansearch {
namespace {

TensorId latent_query(BlockBuilder& block, const Stack& stack, TensorId in, DimId size) {
  const LatentAttention& latent = *stack.model.attention.latent;
  const DimId heads = head_dimension(block, stack);
  if (!latent.query_rank.has_value()) {
    return block.linear(
        {.name = "query", .input = in, .contracted = {stack.hidden}, .outputs = {heads, size}});
  }
  const DimId rank = block.dim("query_latent", DimRole::Latent, *latent.query_rank);
  const TensorId down = block.linear({.name = "query_down",
                                      .input = in,
                                      .contracted = {stack.hidden},
                                      .outputs = {rank},
                                      .fused_key = "down"});
  const TensorId normed = block.norm("query_norm", down, {rank}, {rank}, false, false);
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
  const TensorId query = latent_query(block, stack, in, out.query_size);

  const DimId rank = block.dim("kv_latent", DimRole::Latent, latent.kv_rank);
  const DimId rope = block.dim("rope_size", DimRole::HeadSize, latent.rope_size);
  const DimId both =
      block.dim("key_and_value_size", DimRole::HeadSize, latent.nope_size + latent.value_size);
  const std::string fused = latent.query_rank.has_value() ? "down" : "kv_down";
  const auto down = [&](const std::string& name, DimId size) {
    return block.linear({.name = name,
                         .input = in,
                         .contracted = {stack.hidden},
                         .outputs = {size},
                         .fused_key = fused});
  };
  const TensorId compressed = down("kv_down", rank);
  const TensorId shared_key = down("rope_key", rope);
  const TensorId normed = block.norm("kv_norm", compressed, {rank}, {rank}, false, false);
  const TensorId expanded = block.linear(
      {.name = "kv_up", .input = normed, .contracted = {rank}, .outputs = {heads, both}});

  // Splits the expanded pair, turns the positions in and copies the shared features to every head.
  const Dims tokens = {stack.batch, stack.tokens, heads};
  Operator assemble;
  assemble.name = "rotary";
  assemble.kind = OperatorKind::Elementwise;
  assemble.loop = block.dims(query);
  assemble.inputs = {query, shared_key, expanded};
  out.query = block.tensor("rotary.query", concat(tokens, {out.query_size}));
  out.key = block.tensor("rotary.key", concat(tokens, {out.query_size}));
  out.value = block.tensor("rotary.value", concat(tokens, {out.value_size}));
  assemble.outputs = {out.query, out.key, out.value};
  // Their slices stay alive inside the assembled heads' graph.
  assemble.saved = {query, shared_key, expanded};
  block.add(assemble);
  return out;
}

}  // namespace plansearch
