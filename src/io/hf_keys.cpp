// SPDX-License-Identifier: Apache-2.0
#include "io/hf_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plansearch::io {
namespace {

constexpr std::int64_t kDefaultSequence = 4096;
constexpr std::int64_t kDefaultBatch = 512;

void read_precision(const HfConfig& config, TrainingDefaults& training) {
  const std::optional<std::string> text = config.text({"torch_dtype", "dtype"});
  if (!text.has_value()) return;
  const std::optional<DataType> type = parse_data_type(*text);
  if (type == DataType::Bf16 || type == DataType::Fp16) training.precision = type;
}

}  // namespace

std::optional<Node> HfConfig::any(const Spellings& keys) const {
  for (const std::string_view key : keys) {
    if (auto node = node_.find(key)) return node;
  }
  return std::nullopt;
}

std::int64_t HfConfig::size(const Spellings& keys, IntegerRange range) const {
  if (const auto value = maybe(keys, range)) return *value;
  node_.fail(fmt::format("key '{}' is missing; a {} configuration needs it", keys.front(), family_),
             keys.size() > 1
                 ? fmt::format("also understood: {}", fmt::join(keys.begin() + 1, keys.end(), ", "))
                 : std::string());
}

std::optional<std::int64_t> HfConfig::maybe(const Spellings& keys, IntegerRange range) const {
  const std::optional<Node> node = any(keys);
  if (!node.has_value()) return std::nullopt;
  return node->integer(range);
}

bool HfConfig::flag(std::string_view key, bool fallback) const {
  const std::optional<Node> node = node_.find(key);
  return node.has_value() ? node->boolean() : fallback;
}

double HfConfig::fraction(const Spellings& keys, double fallback) const {
  const std::optional<Node> node = any(keys);
  if (!node.has_value()) return fallback;
  const double value = node->number();
  if (value < 0.0 || value >= 1.0) node->fail("must be at least 0 and below 1");
  return value;
}

std::optional<std::string> HfConfig::text(const Spellings& keys) const {
  const std::optional<Node> node = any(keys);
  if (!node.has_value()) return std::nullopt;
  return node->text();
}

Activation HfConfig::activation(Activation fallback) const {
  const std::optional<Node> node = any(hf::kActivation);
  if (!node.has_value()) return fallback;
  const std::string name = node->text();
  if (name.starts_with("gelu") || name == "quick_gelu") return Activation::Gelu;
  if (name == "relu") return Activation::Relu;
  if (name == "relu2") return Activation::SquaredRelu;
  if (name == "silu" || name == "swish") return Activation::Silu;
  node->fail(fmt::format("activation '{}' is not supported", name),
             "supported: gelu and its variants, relu, relu2, silu, swish");
}

void HfConfig::refuse(std::string_view key, const std::string& why) const {
  node_.at(key).fail(why);
}

ModelDescription common_decoder(const HfConfig& config) {
  ModelDescription model;
  model.layers = config.size(hf::kLayers, kLayerRange);
  model.hidden = config.size(hf::kHidden);
  AttentionDescription& a = model.attention;
  a.heads = config.size(hf::kHeads);
  a.kv_heads = config.maybe(hf::kKvHeads).value_or(a.heads);
  a.head_size =
      config.maybe({"head_dim"}).value_or(std::max<std::int64_t>(model.hidden / a.heads, 1));
  a.positions = PositionKind::Rotary;
  model.mlp.width = config.maybe(hf::kWidth).value_or(4 * model.hidden);
  model.embedding.vocab = config.size(hf::kVocab);
  model.max_positions = config.maybe(hf::kPositions, kLengthRange);
  model.training.seq_len =
      std::min(model.max_positions.value_or(kDefaultSequence), kDefaultSequence);
  model.training.global_batch = kDefaultBatch;
  read_precision(config, model.training);
  return model;
}

}  // namespace plansearch::io
