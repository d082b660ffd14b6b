// SPDX-License-Identifier: Apache-2.0
// RMS norm, rotary positions, gated MLP: Llama, Mistral, Gemma, Qwen and their expert models.
#include <fmt/format.h>

#include "io/hf_keys.hpp"

namespace plansearch::io {
namespace {

ModelDescription llama_like(const HfConfig& config, Activation activation) {
  ModelDescription model = common_decoder(config);
  const bool bias = config.flag("attention_bias", false);
  model.attention.query_key_value_bias = bias;
  model.attention.output_bias = bias;
  model.mlp.width = config.size(hf::kWidth);
  model.mlp.activation = config.activation(activation);
  model.mlp.gated = true;
  model.mlp.bias = config.flag("mlp_bias", false);
  model.norm.kind = NormKind::RmsNorm;
  model.embedding.tied = config.flag("tie_word_embeddings", false);
  model.attention_dropout = config.fraction({"attention_dropout"}, 0.0);
  return model;
}

void add_experts(const HfConfig& config, ModelDescription& model, const Spellings& width) {
  MoeDescription moe;
  moe.experts = config.size(hf::kExperts);
  moe.top_k = config.size(hf::kTopK);
  moe.expert_width = config.size(width);
  model.moe = moe;
}

/// Dense layers named one by one must be the first ones.
std::int64_t leading_dense_layers(const HfConfig& config) {
  const std::optional<Node> list = config.node().find("mlp_only_layers");
  if (!list.has_value()) return 0;
  std::int64_t next = 0;
  for (const Node& item : list->items()) {
    if (item.integer(kZeroOrSize) != next++) {
      item.fail("dense layers other than the first ones are not supported");
    }
  }
  return next;
}

}  // namespace

ModelDescription read_llama(const HfConfig& config) {
  ModelDescription model = llama_like(config, Activation::Silu);
  if (config.family() == "mistral") {
    model.attention.window = config.maybe({"sliding_window"}, kLengthRange);
  }
  return model;
}

ModelDescription read_gemma(const HfConfig& config) {
  ModelDescription model = llama_like(config, Activation::Gelu);
  model.embedding.tied = config.flag("tie_word_embeddings", true);
  if (config.family() == "gemma2") {
    model.norm.placement = NormPlacement::Sandwich;
    model.attention.window = config.maybe({"sliding_window"}, kLengthRange);
    model.attention.full_attention_every = 2;
  }
  return model;
}

ModelDescription read_qwen(const HfConfig& config) {
  ModelDescription model = llama_like(config, Activation::Silu);
  if (config.family() == "qwen3") {
    model.attention.qk_norm = QkNorm::PerHead;
  } else {
    model.attention.query_key_value_bias = true;
    model.attention.output_bias = false;
  }
  if (config.flag("use_sliding_window", false)) {
    config.refuse("use_sliding_window", "a window on the last layers only is not supported");
  }
  return model;
}

ModelDescription read_mixtral(const HfConfig& config) {
  ModelDescription model = llama_like(config, Activation::Silu);
  add_experts(config, model, hf::kWidth);
  model.attention.window = config.maybe({"sliding_window"}, kLengthRange);
  return model;
}

ModelDescription read_qwen_moe(const HfConfig& config) {
  ModelDescription model = llama_like(config, Activation::Silu);
  add_experts(config, model, {"moe_intermediate_size"});
  model.moe->every = config.maybe({"decoder_sparse_step"}).value_or(1);
  model.moe->leading_dense = leading_dense_layers(config);
  if (config.family() == "qwen3_moe") {
    model.attention.qk_norm = QkNorm::PerHead;
    return model;
  }
  model.attention.query_key_value_bias = true;
  model.attention.output_bias = false;
  model.moe->shared_width = config.size({"shared_expert_intermediate_size"});
  model.moe->shared_gate = true;
  return model;
}

ModelDescription read_gpt_oss(const HfConfig& config) {
  ModelDescription model = llama_like(config, Activation::Silu);
  const bool bias = config.flag("attention_bias", true);
  model.attention.query_key_value_bias = bias;
  model.attention.output_bias = bias;
  model.attention.sinks = true;
  model.attention.window = config.maybe({"sliding_window"}, kLengthRange);
  model.attention.full_attention_every = 2;
  add_experts(config, model, hf::kWidth);
  model.moe->router_bias = true;
  model.moe->expert_bias = true;
  return model;
}

ModelDescription read_deepseek(const HfConfig& config) {
  ModelDescription model = llama_like(config, Activation::Silu);
  LatentAttention latent;
  latent.query_rank = config.maybe({"q_lora_rank"});
  latent.kv_rank = config.size({"kv_lora_rank"});
  latent.nope_size = config.size({"qk_nope_head_dim"});
  latent.rope_size = config.size({"qk_rope_head_dim"});
  latent.value_size = config.size({"v_head_dim"});
  model.attention.latent = latent;
  model.attention.kv_heads = model.attention.heads;
  model.attention.head_size = latent.nope_size + latent.rope_size;
  add_experts(config, model, {"moe_intermediate_size"});
  model.moe->shared_width =
      config.maybe({"n_shared_experts"}, kSmallRange).value_or(0) * model.moe->expert_width;
  model.moe->leading_dense = config.maybe({"first_k_dense_replace"}, kZeroOrSize).value_or(0);
  if (config.maybe({"moe_layer_freq"}).value_or(1) != 1) {
    config.refuse("moe_layer_freq", "experts in every n-th layer are not supported here");
  }
  model.moe->correction_bias = config.text({"topk_method"}) == "noaux_tc";
  return model;
}

}  // namespace plansearch::io
