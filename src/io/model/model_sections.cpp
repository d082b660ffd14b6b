// SPDX-License-Identifier: Apache-2.0
#include "io/model/model_sections.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ranges.hpp"
#include "io/document/fields.hpp"

namespace plansearch::io {
namespace {

/// A list of at most as many entries as a network may have layers.
std::vector<Node> short_list(const Node& node) {
  std::vector<Node> items = node.items();
  if (items.size() > static_cast<std::size_t>(kLayerRange.high)) {
    node.fail(fmt::format("has {} entries, more than there can be layers", items.size()));
  }
  return items;
}

std::vector<std::int64_t> read_layers(const Node& list) {
  return transformed(short_list(list), [](const Node& item) { return item.integer(kLayerCount); });
}

std::vector<bool> read_pattern(const Node& list) {
  return transformed(short_list(list), [](const Node& item) {
    return item.choice(std::span<const Choice<bool>>(kSpans));
  });
}

/// Reads a number of at least 0 and below 1.
double read_fraction(const Node& node) {
  const double value = node.number();
  if (value < 0.0 || value >= 1.0) node.fail("must be at least 0 and below 1");
  return value;
}

std::int64_t default_head_size(const Node& node, std::int64_t hidden, std::int64_t heads) {
  if (hidden % heads == 0) return hidden / heads;
  node.fail(fmt::format("hidden {} is not a multiple of heads {}", hidden, heads),
            "write head_size");
}

IndexDescription read_index(const Node& node) {
  IndexDescription index;
  index.heads = node.at("heads").integer(kSizeRange);
  index.size = node.at("size").integer(kSizeRange);
  index.keys = node.at("keys").integer(kLengthRange);
  Fields(node).take("shared", index.shared, &Node::boolean);
  return index;
}

PoolDescription read_pool(const Node& node) {
  PoolDescription pool;
  pool.ratio = node.at("ratio").integer(kSizeRange);
  Fields(node).take("overlap", pool.overlap, kSizeRange);
  return pool;
}

NormDescription read_norm(const Node& node) {
  NormDescription norm;
  const Fields fields(node);
  fields.take("kind", norm.kind, kNorms);
  fields.take("placement", norm.placement, kPlacements);
  fields.take("final", norm.final_norm, &Node::boolean);
  fields.take("first", norm.first_norm, &Node::boolean);
  return norm;
}

EmbeddingDescription read_embedding(const Node& node, PositionKind positions,
                                    std::optional<std::int64_t> max_positions) {
  EmbeddingDescription e;
  const Fields fields(node);
  e.vocab = node.at("vocab").integer(kSizeRange);
  fields.take("tied", e.tied, &Node::boolean);
  fields.take("width", e.width, kSizeRange);
  const std::int64_t rows = positions == PositionKind::Learned ? max_positions.value_or(0) : 0;
  e.position_rows = rows;
  fields.take("position_rows", e.position_rows, IntegerRange{0, kLengthRange.high});
  fields.take("token_types", e.token_types, kZeroOrSize);
  fields.take("norm", e.norm, &Node::boolean);
  fields.take("head_bias", e.head_bias, &Node::boolean);
  fields.take("pooler", e.pooler, &Node::boolean);
  fields.take("head_transform", e.head_transform, kTransforms);
  fields.take("predicted", e.predicted, read_predicted);
  return e;
}

MoeDescription read_experts(const Node& node) {
  MoeDescription moe;
  const Fields fields(node);
  moe.experts = node.at("count").integer(kSizeRange);
  moe.top_k = node.at("top_k").integer(kSizeRange);
  moe.expert_width = node.at("width").integer(kSizeRange);
  fields.take("shared_width", moe.shared_width, kZeroOrSize);
  fields.take("shared_gate", moe.shared_gate, &Node::boolean);
  fields.take("router_bias", moe.router_bias, &Node::boolean);
  fields.take("fp32_router", moe.fp32_router, &Node::boolean);
  fields.take("correction_bias", moe.correction_bias, &Node::boolean);
  fields.take("bias", moe.expert_bias, &Node::boolean);
  fields.take("leading_dense", moe.leading_dense, kZeroOrSize);
  fields.take("every", moe.every, kSizeRange);
  fields.take("dense_layers", moe.dense_layers, read_layers);
  fields.take("layers", moe.layers, read_layers);
  fields.take("capacity_factor", moe.capacity_factor, &Node::positive_number);
  fields.take("imbalance", moe.imbalance, &Node::number);
  fields.take("groups", moe.groups, kSizeRange);
  fields.take("top_groups", moe.top_groups, kSizeRange);
  fields.take("latent", moe.latent, kZeroOrSize);
  fields.take("idle", moe.idle, kZeroOrSize);
  return moe;
}

DecoderDescription read_decoder(const Node& node, const ModelDescription& model) {
  DecoderDescription decoder;
  const Fields fields(node);
  decoder.layers = model.layers;
  fields.take("layers", decoder.layers, kLayerRange);
  decoder.mlp_width = model.mlp.width;
  fields.take("mlp_width", decoder.mlp_width, kSizeRange);
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
  const Fields fields(node);
  vision.image_size = node.at("image_size").integer(kSizeRange);
  vision.patch_size = node.at("patch_size").integer(kSizeRange);
  fields.take("channels", vision.channels, kSizeRange);
  vision.classes = node.at("classes").integer(kSizeRange);
  return vision;
}

}  // namespace

AttentionDescription read_attention(const Node& node, std::int64_t hidden,
                                    const AttentionDescription* base) {
  AttentionDescription a = base != nullptr ? *base : AttentionDescription{};
  const Fields fields(node);
  if (base == nullptr) {
    a.heads = node.at("heads").integer(kSizeRange);
    a.kv_heads = a.heads;
  } else {
    fields.take("heads", a.heads, kSizeRange);
  }
  fields.take("kv_heads", a.kv_heads, kSizeRange);
  fields.take("latent", a.latent, read_latent);
  std::optional<std::int64_t> size;
  fields.take("head_size", size, kSizeRange);
  if (a.latent.has_value()) {
    a.head_size = a.latent->nope_size + a.latent->rope_size;
    if (size.has_value()) node.at("head_size").fail("latent attention has its own head sizes");
  } else if (size.has_value()) {
    a.head_size = *size;
  } else if (base == nullptr) {
    a.head_size = default_head_size(node, hidden, a.heads);
  }
  fields.take("value_size", a.value_size, kSizeRange);
  fields.take("query_rank", a.query_rank, kSizeRange);
  fields.take("output_groups", a.output_groups, kZeroOrSize);
  fields.take("output_rank", a.output_rank, kZeroOrSize);
  fields.take("value_is_key", a.value_is_key, &Node::boolean);
  fields.take("gate", a.gate, kGates);
  fields.take("index", a.index, read_index);
  fields.take("pool", a.pool, read_pool);
  fields.with("bias", [&](const Node& places) {
    const auto bias = places.choice(std::span<const Choice<BiasPlaces>>(kBiases));
    a.query_key_value_bias = bias == BiasPlaces::Qkv || bias == BiasPlaces::All;
    a.output_bias = bias == BiasPlaces::Output || bias == BiasPlaces::All;
  });
  fields.take("repeats_heads", a.repeats_heads, &Node::boolean);
  fields.take("fused_projection", a.fused_projection, &Node::boolean);
  if (base == nullptr) static_cast<void>(node.at("positions"));
  fields.take("positions", a.positions, kPositions);
  fields.take("relative_buckets", a.relative_buckets, kZeroOrSize);
  fields.take("qk_norm", a.qk_norm, kQkNorms);
  fields.take("sinks", a.sinks, &Node::boolean);
  fields.take("window", a.window, kLengthRange);
  fields.take("window_kind", a.window_kind, kWindows);
  fields.take("full_attention_every", a.full_attention_every, kSmallRange);
  fields.take("leading_full", a.leading_full, kLayerCount);
  fields.take("layer_pattern", a.full_layers, read_pattern);
  return a;
}

MlpDescription read_mlp(const Node& node, std::int64_t hidden, const MlpDescription* base) {
  MlpDescription mlp = base != nullptr ? *base : MlpDescription{};
  const Fields fields(node);
  if (base == nullptr) {
    mlp.width = 4 * hidden;
    static_cast<void>(node.at("activation"));
  }
  fields.take("width", mlp.width, kSizeRange);
  fields.take("activation", mlp.activation, kActivations);
  fields.take("gated", mlp.gated, &Node::boolean);
  fields.take("bias", mlp.bias, &Node::boolean);
  return mlp;
}

double read_predicted(const Node& node) {
  const double share = node.number();
  if (share <= 0.0 || share > 1.0) node.fail("must be above 0 and at most 1");
  return share;
}

LatentAttention read_latent(const Node& node) {
  LatentAttention latent;
  Fields(node).take("query_rank", latent.query_rank, kSizeRange);
  latent.kv_rank = node.at("kv_rank").integer(kSizeRange);
  latent.nope_size = node.at("nope_size").integer(kSizeRange);
  latent.rope_size = node.at("rope_size").integer(kSizeRange);
  latent.value_size = node.at("value_size").integer(kSizeRange);
  Fields(node).take("absorbed", latent.absorbed, &Node::boolean);
  return latent;
}

TrainingDefaults read_training(const Node& node, StackKind stack) {
  TrainingDefaults training;
  const Fields fields(node);
  const bool sized = stack == StackKind::Vision || stack == StackKind::Graph;
  if (!sized) training.seq_len = node.at("seq_len").integer(kLengthRange);
  training.global_batch = node.at("global_batch").integer(kLengthRange);
  if (const auto precision = node.find("precision")) {
    training.precision = parse_data_type(precision->text());
    if (!training.precision.has_value()) {
      precision->fail(fmt::format("unknown precision '{}'", precision->text()),
                      "use bf16, fp16, fp32, fp8, mxfp8 or nvfp4");
    }
  }
  fields.take("optimizer", training.optimizer, kOptimizers);
  fields.take("frozen", training.frozen, &Node::texts);
  fields.take("lora", training.lora, [](const Node& lora) {
    return LoraDescription{lora.at("rank").integer(kSizeRange), lora.at("targets").texts()};
  });
  return training;
}

ModelDescription read_sections(const Node& root, const std::filesystem::path& families) {
  ModelDescription model;
  const Fields fields(root);
  model.name = root.at("name").name();
  model.source = root.at("source").text();
  fields.take("stack", model.stack, kStacks);
  model.layers = root.at("layers").integer(kLayerRange);
  model.hidden = root.at("hidden").integer(kSizeRange);
  fields.take("max_positions", model.max_positions, kLengthRange);
  fields.take("mtp_layers", model.mtp_layers, kSmallRange);
  fields.take("streams", model.streams, IntegerRange{1, 64});
  model.attention = read_attention(root.at("attention"), model.hidden);
  fields.with("mlp", [&](const Node& node) { model.mlp = read_mlp(node, model.hidden); });
  fields.take("norm", model.norm, read_norm);
  fields.with("embedding", [&](const Node& node) {
    model.embedding = read_embedding(node, model.attention.positions, model.max_positions);
  });
  fields.with("dropout", [&](const Node& node) {
    Fields(node).take("residual", model.dropout, read_fraction);
    Fields(node).take("attention", model.attention_dropout, read_fraction);
  });
  fields.take("experts", model.moe, read_experts);
  model.list = read_layer_list(root, model, families);
  fields.with("decoder", [&](const Node& node) { model.decoder = read_decoder(node, model); });
  fields.take("vision", model.vision, read_vision);
  fields.with("tower", [&](const Node& node) {
    std::vector<std::string> unknown;
    model.tower = read_tower(node, model.hidden, families, unknown);
    if (!model.tower) node.fail("no tower of this model_type is described");
    if (!unknown.empty()) node.fail(fmt::format("unknown keys: {}", fmt::join(unknown, ", ")));
  });
  model.training = read_training(root.at("training"), model.stack);
  return model;
}

}  // namespace plansearch::io
