// SPDX-License-Identifier: Apache-2.0
#include "io/model_sections.hpp"

#include <fmt/format.h>

#include "io/fields.hpp"

namespace plansearch::io {
namespace {

enum class BiasPlaces { None, Qkv, Output, All };

constexpr Choice<BiasPlaces> kBiases[] = {{"none", BiasPlaces::None},
                                          {"qkv", BiasPlaces::Qkv},
                                          {"output", BiasPlaces::Output},
                                          {"all", BiasPlaces::All}};
constexpr Choice<WindowKind> kWindows[] = {{"sliding", WindowKind::Sliding},
                                           {"chunked", WindowKind::Chunked}};
constexpr Choice<bool> kSpans[] = {{"full", true}, {"window", false}};
constexpr Choice<HeadTransform> kTransforms[] = {{"none", HeadTransform::None},
                                                 {"plain", HeadTransform::Plain},
                                                 {"bias", HeadTransform::Biased}};
constexpr Choice<Activation> kActivations[] = {{"gelu", Activation::Gelu},
                                               {"relu", Activation::Relu},
                                               {"silu", Activation::Silu},
                                               {"squared-relu", Activation::SquaredRelu},
                                               {"clamped-silu", Activation::ClampedSilu}};
constexpr Choice<NormPlacement> kPlacements[] = {
    {"pre", NormPlacement::Pre},           {"post", NormPlacement::Post},
    {"sandwich", NormPlacement::Sandwich}, {"after-branch", NormPlacement::AfterBranch},
    {"parallel", NormPlacement::Parallel}, {"parallel-two", NormPlacement::ParallelTwo}};
/// A list of at most as many entries as a network may have layers.
std::vector<Node> short_list(const Node& node) {
  std::vector<Node> items = node.items();
  if (items.size() > static_cast<std::size_t>(kLayerRange.high)) {
    node.fail(fmt::format("has {} entries, more than there can be layers", items.size()));
  }
  return items;
}

std::vector<std::int64_t> read_layers(const Node& map, std::string_view key) {
  std::vector<std::int64_t> layers;
  if (const auto list = map.find(key)) {
    for (const Node& item : short_list(*list)) layers.push_back(item.integer(kLayerCount));
  }
  return layers;
}

std::int64_t default_head_size(const Node& node, std::int64_t hidden, std::int64_t heads) {
  if (hidden % heads == 0) return hidden / heads;
  node.fail(fmt::format("hidden {} is not a multiple of heads {}", hidden, heads),
            "write head_size");
}

}  // namespace

LatentAttention read_latent(const Node& node) {
  LatentAttention latent;
  latent.query_rank = read_optional(node, "query_rank", kSizeRange);
  latent.kv_rank = node.at("kv_rank").integer(kSizeRange);
  latent.nope_size = node.at("nope_size").integer(kSizeRange);
  latent.rope_size = node.at("rope_size").integer(kSizeRange);
  latent.value_size = node.at("value_size").integer(kSizeRange);
  return latent;
}

std::int64_t read_integer(const Node& map, std::string_view key, IntegerRange range,
                          std::int64_t fallback) {
  return read_optional(map, key, range).value_or(fallback);
}

std::optional<std::int64_t> read_optional(const Node& map, std::string_view key,
                                          IntegerRange range) {
  const std::optional<Node> node = map.find(key);
  if (!node.has_value()) return std::nullopt;
  return node->integer(range);
}

bool read_switch(const Node& map, std::string_view key) {
  const std::optional<Node> node = map.find(key);
  return node.has_value() && node->boolean();
}

double read_fraction(const Node& map, std::string_view key) {
  const std::optional<Node> node = map.find(key);
  if (!node.has_value()) return 0.0;
  const double value = node->number();
  if (value < 0.0 || value >= 1.0) node->fail("must be at least 0 and below 1");
  return value;
}

AttentionDescription read_attention(const Node& node, std::int64_t hidden) {
  AttentionDescription a;
  a.heads = node.at("heads").integer(kSizeRange);
  a.kv_heads = read_integer(node, "kv_heads", kSizeRange, a.heads);
  Fields(node).take("latent", a.latent, read_latent);
  const std::optional<std::int64_t> size = read_optional(node, "head_size", kSizeRange);
  if (a.latent.has_value()) {
    a.head_size = a.latent->nope_size + a.latent->rope_size;
    if (size.has_value()) node.at("head_size").fail("latent attention has its own head sizes");
  } else {
    a.head_size = size.has_value() ? *size : default_head_size(node, hidden, a.heads);
  }
  const BiasPlaces bias = read_choice<BiasPlaces>(node, "bias", kBiases, BiasPlaces::None);
  a.query_key_value_bias = bias == BiasPlaces::Qkv || bias == BiasPlaces::All;
  a.output_bias = bias == BiasPlaces::Output || bias == BiasPlaces::All;
  a.repeats_heads = read_switch(node, "repeats_heads");
  a.fused_projection = read_switch(node, "fused_projection");
  a.positions = node.at("positions").choice(std::span<const Choice<PositionKind>>(kPositions));
  a.relative_buckets = read_integer(node, "relative_buckets", kZeroOrSize, 0);
  a.qk_norm = read_choice<QkNorm>(node, "qk_norm", kQkNorms, QkNorm::None);
  a.sinks = read_switch(node, "sinks");
  a.window = read_optional(node, "window", kLengthRange);
  a.window_kind = read_choice<WindowKind>(node, "window_kind", kWindows, WindowKind::Sliding);
  a.full_attention_every = read_integer(node, "full_attention_every", kSmallRange, 0);
  a.leading_full = read_integer(node, "leading_full", kLayerCount, 0);
  if (const auto pattern = node.find("layer_pattern")) {
    for (const Node& item : short_list(*pattern)) {
      a.full_layers.push_back(item.choice(std::span<const Choice<bool>>(kSpans)));
    }
  }
  return a;
}

MlpDescription read_mlp(const Node& node, std::int64_t hidden) {
  MlpDescription mlp;
  mlp.width = read_integer(node, "width", kSizeRange, 4 * hidden);
  mlp.activation = node.at("activation").choice(std::span<const Choice<Activation>>(kActivations));
  mlp.gated = read_switch(node, "gated");
  mlp.bias = read_switch(node, "bias");
  return mlp;
}

NormDescription read_norm(const Node& node) {
  NormDescription norm;
  norm.kind = read_choice<NormKind>(node, "kind", kNorms, NormKind::LayerNorm);
  norm.placement = read_choice<NormPlacement>(node, "placement", kPlacements, NormPlacement::Pre);
  Fields(node).take("final", norm.final_norm, &Node::boolean);
  Fields(node).take("first", norm.first_norm, &Node::boolean);
  return norm;
}

EmbeddingDescription read_embedding(const Node& node, PositionKind positions,
                                    std::optional<std::int64_t> max_positions) {
  EmbeddingDescription e;
  e.vocab = node.at("vocab").integer(kSizeRange);
  e.tied = read_switch(node, "tied");
  e.width = read_optional(node, "width", kSizeRange);
  const std::int64_t rows = positions == PositionKind::Learned ? max_positions.value_or(0) : 0;
  e.position_rows = read_integer(node, "position_rows", IntegerRange{0, kLengthRange.high}, rows);
  e.token_types = read_integer(node, "token_types", kZeroOrSize, 0);
  e.norm = read_switch(node, "norm");
  e.head_bias = read_switch(node, "head_bias");
  e.pooler = read_switch(node, "pooler");
  e.head_transform =
      read_choice<HeadTransform>(node, "head_transform", kTransforms, HeadTransform::None);
  return e;
}

MoeDescription read_experts(const Node& node) {
  MoeDescription moe;
  moe.experts = node.at("count").integer(kSizeRange);
  moe.top_k = node.at("top_k").integer(kSizeRange);
  moe.expert_width = node.at("width").integer(kSizeRange);
  moe.shared_width = read_integer(node, "shared_width", kZeroOrSize, 0);
  moe.shared_gate = read_switch(node, "shared_gate");
  moe.router_bias = read_switch(node, "router_bias");
  moe.fp32_router = read_switch(node, "fp32_router");
  moe.correction_bias = read_switch(node, "correction_bias");
  moe.expert_bias = read_switch(node, "bias");
  moe.leading_dense = read_integer(node, "leading_dense", kZeroOrSize, 0);
  moe.every = read_integer(node, "every", kSizeRange, 1);
  moe.dense_layers = read_layers(node, "dense_layers");
  moe.layers = read_layers(node, "layers");
  Fields(node).take("capacity_factor", moe.capacity_factor, &Node::positive_number);
  Fields(node).take("imbalance", moe.imbalance, &Node::number);
  return moe;
}

DecoderDescription read_decoder(const Node& node, const ModelDescription& model) {
  DecoderDescription decoder;
  decoder.layers = read_integer(node, "layers", kLayerRange, model.layers);
  decoder.mlp_width = read_integer(node, "mlp_width", kSizeRange, model.mlp.width);
  if (const auto heads = node.find("heads");
      heads && heads->integer(kSizeRange) != model.attention.heads) {
    heads->fail(fmt::format("must be the encoder's {}: two stacks of other heads are not described",
                            model.attention.heads));
  }
  decoder.sequence = node.at("sequence").integer(kLengthRange);
  return decoder;
}

VisionDescription read_vision(const Node& node) {
  VisionDescription vision;
  vision.image_size = node.at("image_size").integer(kSizeRange);
  vision.patch_size = node.at("patch_size").integer(kSizeRange);
  vision.channels = read_integer(node, "channels", kSizeRange, 3);
  vision.classes = node.at("classes").integer(kSizeRange);
  return vision;
}

TrainingDefaults read_training(const Node& node, StackKind stack) {
  TrainingDefaults training;
  if (stack != StackKind::Vision) training.seq_len = node.at("seq_len").integer(kLengthRange);
  training.global_batch = node.at("global_batch").integer(kLengthRange);
  if (const auto precision = node.find("precision")) {
    training.precision = parse_data_type(precision->text());
    if (!training.precision.has_value()) {
      precision->fail(fmt::format("unknown precision '{}'", precision->text()),
                      "use bf16, fp16, fp32, fp8, mxfp8 or nvfp4");
    }
  }
  training.optimizer =
      read_choice<OptimizerKind>(node, "optimizer", kOptimizers, OptimizerKind::Adam);
  const Fields fields(node);
  fields.take("frozen", training.frozen, &Node::texts);
  fields.take("lora", training.lora, [](const Node& lora) {
    return LoraDescription{lora.at("rank").integer(kSizeRange), lora.at("targets").texts()};
  });
  return training;
}

ModelDescription read_sections(const Node& root) {
  ModelDescription model;
  model.name = root.at("name").text();
  model.source = root.at("source").text();
  model.stack = read_choice<StackKind>(root, "stack", kStacks, StackKind::Decoder);
  model.layers = root.at("layers").integer(kLayerRange);
  model.hidden = root.at("hidden").integer(kSizeRange);
  model.max_positions = read_optional(root, "max_positions", kLengthRange);
  model.mtp_layers = read_integer(root, "mtp_layers", kSmallRange, 0);
  model.attention = read_attention(root.at("attention"), model.hidden);
  if (const auto node = root.find("mlp")) model.mlp = read_mlp(*node, model.hidden);
  if (const auto node = root.find("norm")) model.norm = read_norm(*node);
  if (const auto node = root.find("embedding")) {
    model.embedding = read_embedding(*node, model.attention.positions, model.max_positions);
  }
  if (const auto node = root.find("dropout")) {
    model.dropout = read_fraction(*node, "residual");
    model.attention_dropout = read_fraction(*node, "attention");
  }
  if (const auto node = root.find("experts")) model.moe = read_experts(*node);
  if (const auto node = root.find("decoder")) model.decoder = read_decoder(*node, model);
  if (const auto node = root.find("vision")) model.vision = read_vision(*node);
  model.training = read_training(root.at("training"), model.stack);
  return model;
}

}  // namespace plansearch::io
