// SPDX-License-Identifier: Apache-2.0
// Families with an encoder: BERT, ViT, T5 and mT5, mBART.
#include <algorithm>

#include "io/hf_keys.hpp"

namespace plansearch::io {
namespace {

constexpr std::int64_t kTextToTextSequence = 512;

/// Labels of a classifier: a count, a map, or the two that transformers assumes.
std::int64_t label_count(const HfConfig& config) {
  if (const auto count = config.maybe({"num_labels"})) return *count;
  if (const auto names = config.node().find("id2label")) {
    return std::max<std::int64_t>(static_cast<std::int64_t>(names->entries().size()), 1);
  }
  return 2;
}

void bias_everything(ModelDescription& model) {
  model.attention.query_key_value_bias = true;
  model.attention.output_bias = true;
  model.mlp.bias = true;
}

}  // namespace

ModelDescription read_bert(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  bias_everything(model);
  model.stack = StackKind::Encoder;
  model.attention.positions = PositionKind::Learned;
  model.mlp.activation = config.activation(Activation::Gelu);
  model.norm.placement = NormPlacement::Post;
  model.norm.final_norm = false;
  model.embedding.position_rows = config.size(hf::kPositions, kLengthRange);
  model.embedding.token_types = config.maybe({"type_vocab_size"}, kZeroOrSize).value_or(2);
  model.embedding.norm = true;
  model.embedding.pooler = true;
  model.embedding.tied = config.flag("tie_word_embeddings", true);
  model.dropout = config.fraction({"hidden_dropout_prob"}, 0.1);
  model.attention_dropout = config.fraction({"attention_probs_dropout_prob"}, 0.1);
  return model;
}

ModelDescription read_vit(const HfConfig& config) {
  ModelDescription model;
  model.stack = StackKind::Vision;
  model.layers = config.size(hf::kLayers, kLayerRange);
  model.hidden = config.size(hf::kHidden);
  model.attention.heads = config.size(hf::kHeads);
  model.attention.kv_heads = model.attention.heads;
  model.attention.head_size = std::max<std::int64_t>(model.hidden / model.attention.heads, 1);
  model.attention.positions = PositionKind::Learned;
  model.mlp.width = config.size(hf::kWidth);
  bias_everything(model);
  model.attention.query_key_value_bias = config.flag("qkv_bias", true);
  model.mlp.activation = config.activation(Activation::Gelu);
  VisionDescription vision;
  vision.image_size = config.size({"image_size"});
  vision.patch_size = config.size({"patch_size"});
  vision.channels = config.maybe({"num_channels"}).value_or(3);
  vision.classes = label_count(config);
  model.vision = vision;
  model.dropout = config.fraction({"hidden_dropout_prob"}, 0.0);
  model.attention_dropout = config.fraction({"attention_probs_dropout_prob"}, 0.0);
  model.training.global_batch = 1024;
  return model;
}

ModelDescription read_t5(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  model.stack = StackKind::EncoderDecoder;
  model.attention.head_size = config.size({"d_kv"});
  model.attention.positions = PositionKind::Relative;
  model.attention.relative_buckets = config.maybe({"relative_attention_num_buckets"}).value_or(32);
  const std::string projection = config.text({"feed_forward_proj"}).value_or("relu");
  model.mlp.gated = projection.starts_with("gated");
  const bool relu = projection.ends_with("relu");
  model.mlp.activation = relu ? Activation::Relu : Activation::Gelu;
  model.norm.kind = NormKind::RmsNorm;
  model.embedding.tied = config.flag("tie_word_embeddings", true);
  DecoderDescription decoder;
  decoder.layers = config.maybe({"num_decoder_layers"}, kLayerRange).value_or(model.layers);
  decoder.mlp_width = model.mlp.width;
  decoder.sequence = kTextToTextSequence;
  model.decoder = decoder;
  model.dropout = config.fraction({"dropout_rate"}, 0.1);
  model.attention_dropout = model.dropout;
  model.training.seq_len = model.max_positions.value_or(kTextToTextSequence);
  return model;
}

ModelDescription read_mbart(const HfConfig& config) {
  ModelDescription model = common_decoder(config);
  model.stack = StackKind::EncoderDecoder;
  bias_everything(model);
  model.attention.positions = PositionKind::Learned;
  model.mlp.width = config.size({"encoder_ffn_dim"});
  model.mlp.activation = config.activation(Activation::Gelu);
  // The table starts with two unused rows.
  model.embedding.position_rows = config.size(hf::kPositions, kLengthRange) + 2;
  model.embedding.norm = true;
  model.embedding.tied = config.flag("tie_word_embeddings", true);
  DecoderDescription decoder;
  decoder.layers = config.size({"decoder_layers"}, kLayerRange);
  decoder.mlp_width = config.size({"decoder_ffn_dim"});
  decoder.sequence = model.training.seq_len;
  model.decoder = decoder;
  const std::optional<std::int64_t> heads = config.maybe({"decoder_attention_heads"});
  if (heads.value_or(model.attention.heads) != model.attention.heads) {
    config.refuse("decoder_attention_heads", "must equal encoder_attention_heads");
  }
  model.dropout = config.fraction({"dropout"}, 0.1);
  model.attention_dropout = config.fraction({"attention_dropout"}, 0.0);
  return model;
}

}  // namespace plansearch::io
