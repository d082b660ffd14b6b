// SPDX-License-Identifier: Apache-2.0
// Small hand-written architectures for the tests of the workload layer.
#pragma once

#include <stdexcept>
#include <string>

#include "plansearch/transformer_builder.hpp"

namespace plansearch::test {

/// GPT-2/GPT-3 style: biases, LayerNorm, learned positions, tied embedding, dropout.
inline ModelDescription gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                            std::int64_t vocab, std::int64_t seq_len) {
  ModelDescription m;
  m.name = "gpt";
  m.layers = layers;
  m.hidden = hidden;
  m.attention.heads = heads;
  m.attention.kv_heads = heads;
  m.attention.head_size = hidden / heads;
  m.attention.query_key_value_bias = true;
  m.attention.output_bias = true;
  m.attention.positions = PositionKind::Learned;
  m.mlp = {4 * hidden, Activation::Gelu, false, true};
  m.embedding.vocab = vocab;
  m.embedding.tied = true;
  m.embedding.position_rows = seq_len;
  m.dropout = 0.1;
  m.attention_dropout = 0.1;
  m.training.seq_len = seq_len;
  m.training.global_batch = 8;
  return m;
}

/// Llama style: no biases, RMS norm, rotary positions, gated MLP.
inline ModelDescription llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                              std::int64_t kv_heads, std::int64_t width, std::int64_t vocab) {
  ModelDescription m;
  m.name = "llama";
  m.layers = layers;
  m.hidden = hidden;
  m.attention.heads = heads;
  m.attention.kv_heads = kv_heads;
  m.attention.head_size = hidden / heads;
  m.attention.positions = PositionKind::Rotary;
  m.mlp = {width, Activation::Silu, true, false};
  m.norm.kind = NormKind::RmsNorm;
  m.embedding.vocab = vocab;
  m.training.seq_len = 4096;
  m.training.global_batch = 8;
  return m;
}

inline ModelDescription with_experts(ModelDescription m, std::int64_t experts, std::int64_t top_k) {
  MoeDescription moe;
  moe.experts = experts;
  moe.top_k = top_k;
  moe.expert_width = m.mlp.width;
  m.moe = moe;
  return m;
}

inline const Block& block_named(const Network& network, const std::string& name) {
  for (const Block& block : network.blocks) {
    if (block.name == name) return block;
  }
  throw std::runtime_error("no block " + name);
}

}  // namespace plansearch::test
