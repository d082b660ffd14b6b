// SPDX-License-Identifier: Apache-2.0
// Hugging Face spells one thing in many ways; a concept is the list of its spellings.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "io/model_sections.hpp"

namespace plansearch::io {

using Spellings = std::vector<std::string_view>;

namespace hf {
inline const Spellings kHidden = {"hidden_size", "n_embd", "d_model", "n_embed"};
inline const Spellings kLayers = {"num_hidden_layers", "n_layer", "num_layers", "n_layers",
                                  "encoder_layers"};
inline const Spellings kHeads = {"num_attention_heads", "n_head", "num_heads", "n_heads",
                                 "encoder_attention_heads"};
inline const Spellings kKvHeads = {"num_key_value_heads", "num_kv_heads", "n_head_kv"};
inline const Spellings kWidth = {"intermediate_size", "ffn_dim",         "d_ff",
                                 "n_inner",           "ffn_hidden_size", "encoder_ffn_dim"};
inline const Spellings kPositions = {
    "max_position_embeddings", "n_positions", "seq_length", "max_seq_len",
    "max_sequence_length",     "n_ctx"};
inline const Spellings kExperts = {"num_local_experts", "num_experts", "n_routed_experts"};
inline const Spellings kTopK = {"num_experts_per_tok", "experts_per_token", "moe_topk"};
inline const Spellings kActivation = {"hidden_act", "activation_function", "hidden_activation",
                                      "activation"};
inline const Spellings kVocab = {"vocab_size"};
}  // namespace hf

/// One configuration being read.
class HfConfig {
 public:
  HfConfig(Node node, std::string family) : node_(std::move(node)), family_(std::move(family)) {}

  [[nodiscard]] const std::string& family() const { return family_; }
  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] std::optional<Node> any(const Spellings& keys) const;
  [[nodiscard]] std::int64_t size(const Spellings& keys, IntegerRange range = kSizeRange) const;
  [[nodiscard]] std::optional<std::int64_t> maybe(const Spellings& keys,
                                                  IntegerRange range = kSizeRange) const;
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const;
  [[nodiscard]] double fraction(const Spellings& keys, double fallback) const;
  [[nodiscard]] std::optional<std::string> text(const Spellings& keys) const;
  [[nodiscard]] Activation activation(Activation fallback) const;
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const;

 private:
  Node node_;
  std::string family_;
};

/// Head sizes, biases and widths that most decoders spell alike.
[[nodiscard]] ModelDescription common_decoder(const HfConfig& config);

ModelDescription read_gpt2(const HfConfig& config);
ModelDescription read_opt(const HfConfig& config);
ModelDescription read_bloom(const HfConfig& config);
ModelDescription read_gpt_neox(const HfConfig& config);
ModelDescription read_falcon(const HfConfig& config);
ModelDescription read_phi(const HfConfig& config);
ModelDescription read_llama(const HfConfig& config);
ModelDescription read_gemma(const HfConfig& config);
ModelDescription read_qwen(const HfConfig& config);
ModelDescription read_mixtral(const HfConfig& config);
ModelDescription read_qwen_moe(const HfConfig& config);
ModelDescription read_gpt_oss(const HfConfig& config);
ModelDescription read_deepseek(const HfConfig& config);
ModelDescription read_bert(const HfConfig& config);
ModelDescription read_vit(const HfConfig& config);
ModelDescription read_t5(const HfConfig& config);
ModelDescription read_mbart(const HfConfig& config);

}  // namespace plansearch::io
