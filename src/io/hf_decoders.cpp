// SPDX-License-Identifier: Apache-2.0
// Decoder families before Llama: GPT-2, OPT, BLOOM, GPT-NeoX (Pythia), Falcon, Phi.
#include "io/hf_keys.hpp"

namespace plansearch::io {
namespace {

void bias_everything(ModelDescription& model) {
  model.attention.query_key_value_bias = true;
  model.attention.output_bias = true;
  model.mlp.bias = true;
}

void read_dropout(const HfConfig& config, ModelDescription& model, double residual,
                  double attention) {
  model.dropout = config.fraction({"resid_pdrop", "dropout", "hidden_dropout"}, residual);
  model.attention_dropout = config.fraction({"attn_pdrop", "attention_dropout"}, attention);
}

}  // namespace

ModelDescription read_gpt2(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  bias_everything(model);
  model.attention.positions = PositionKind::Learned;
  model.mlp.activation = config.activation(Activation::Gelu);
  model.embedding.position_rows =
      config.size({"n_positions", "max_position_embeddings", "n_ctx"}, kLengthRange);
  model.embedding.tied = config.flag("tie_word_embeddings", true);
  read_dropout(config, model, 0.1, 0.1);
  return model;
}

ModelDescription read_opt(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  bias_everything(model);
  model.mlp.width = config.size({"ffn_dim"});
  model.attention.positions = PositionKind::Learned;
  model.mlp.activation = config.activation(Activation::Relu);
  // The table starts with two unused rows.
  model.embedding.position_rows = config.size(hf::kPositions, kLengthRange) + 2;
  model.embedding.tied = config.flag("tie_word_embeddings", true);
  const std::int64_t width = config.maybe({"word_embed_proj_dim"}).value_or(model.hidden);
  if (width != model.hidden) model.embedding.width = width;
  const bool before = config.flag("do_layer_norm_before", true);
  model.norm.placement = before ? NormPlacement::Pre : NormPlacement::Post;
  model.norm.final_norm = before && !config.flag("_remove_final_layer_norm", false);
  read_dropout(config, model, 0.1, 0.0);
  return model;
}

ModelDescription read_bloom(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  bias_everything(model);
  model.attention.positions = PositionKind::Alibi;
  model.mlp.width = 4 * model.hidden;
  model.mlp.activation = Activation::Gelu;
  model.embedding.norm = true;
  model.embedding.tied = config.flag("tie_word_embeddings", true);
  read_dropout(config, model, 0.0, 0.0);
  return model;
}

ModelDescription read_gpt_neox(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  bias_everything(model);
  const bool biased = config.flag("attention_bias", true);
  model.attention.query_key_value_bias = biased;
  model.attention.output_bias = biased;
  model.mlp.activation = config.activation(Activation::Gelu);
  model.embedding.tied = config.flag("tie_word_embeddings", false);
  const bool parallel = config.flag("use_parallel_residual", true);
  model.norm.placement = parallel ? NormPlacement::ParallelTwo : NormPlacement::Pre;
  read_dropout(config, model, 0.0, 0.0);
  return model;
}

ModelDescription read_falcon(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  if (config.flag("bias", false)) bias_everything(model);
  const bool grouped = config.flag("new_decoder_architecture", false);
  if (grouped) {
    model.attention.kv_heads = config.size(hf::kKvHeads);
  } else {
    model.attention.kv_heads = config.flag("multi_query", true) ? 1 : model.attention.heads;
  }
  if (config.flag("alibi", false)) model.attention.positions = PositionKind::Alibi;
  model.mlp.activation = config.activation(Activation::Gelu);
  model.embedding.tied = config.flag("tie_word_embeddings", true);
  const bool parallel = config.flag("parallel_attn", true);
  model.norm.placement = grouped    ? NormPlacement::ParallelTwo
                         : parallel ? NormPlacement::Parallel
                                    : NormPlacement::Pre;
  read_dropout(config, model, 0.0, 0.0);
  return model;
}

ModelDescription read_phi(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  bias_everything(model);
  if (config.flag("qk_layernorm", false)) {
    config.refuse("qk_layernorm", "layer-normalised queries and keys with bias are not supported");
  }
  model.mlp.activation = config.activation(Activation::Gelu);
  model.norm.placement = NormPlacement::Parallel;
  model.embedding.head_bias = true;
  model.embedding.tied = config.flag("tie_word_embeddings", false);
  read_dropout(config, model, 0.0, 0.0);
  return model;
}

}  // namespace plansearch::io
