// SPDX-License-Identifier: Apache-2.0
#include "plansearch/transformer_builder.hpp"
#include "base/ranges.hpp"

#include <algorithm>

#include "plansearch/error.hpp"
#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

/// The feed-forward of a layer where the sections decide.
bool has_experts(const ModelDescription& model, std::int64_t layer) {
  if (!model.moe.has_value()) return false;
  const MoeDescription& moe = *model.moe;
  const auto names = [&](const std::vector<std::int64_t>& layers) {
    return contains(layers, layer);
  };
  if (!moe.layers.empty()) return names(moe.layers);
  return layer >= moe.leading_dense && (layer + 1) % moe.every == 0 && !names(moe.dense_layers);
}

bool sees_all(const AttentionDescription& a, std::int64_t layer) {
  if (!a.full_layers.empty()) {
    return a.full_layers[static_cast<std::size_t>(layer) % a.full_layers.size()];
  }
  if (layer < a.leading_full) return true;
  return a.full_attention_every > 0 && (layer + 1) % a.full_attention_every == 0;
}

/// A window longer than the sequence is dropped: such layers are the same block.
AttentionSpan span_of(StackKind stack, const AttentionDescription& a, std::int64_t layer,
                      std::int64_t tokens) {
  AttentionSpan span;
  span.visibility = stack == StackKind::Decoder ? Visibility::Causal : Visibility::All;
  if (a.window.has_value() && *a.window < tokens && !sees_all(a, layer)) {
    span.window = a.window;
    span.window_kind = a.window_kind;
  }
  return span;
}

/// The entry of a list that repeats.
const std::string& entry_of(const std::vector<std::string>& list, std::int64_t layer) {
  return list[static_cast<std::size_t>(layer) % list.size()];
}

LayerVariant variant_of(const ModelDescription& model, std::string mixer, std::string feed_forward,
                        std::int64_t layer, std::int64_t tokens) {
  LayerVariant variant;
  for (const std::string& name : mixers_of(mixer)) {
    if (const AttentionDescription* a = attention_called(model, name))
      variant.span = span_of(model.stack, *a, layer, tokens);
  }
  variant.mixer = std::move(mixer);
  variant.feed_forward = std::move(feed_forward);
  variant.bare = layer == 0 && !model.norm.first_norm;
  return variant;
}

}  // namespace

std::vector<LayerVariant> layer_variants(const ModelDescription& model, std::int64_t tokens) {
  const LayerList& list = model.list;
  std::vector<LayerVariant> variants;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    std::string mixer = kAttentionWord;
    std::string feed_forward = has_experts(model, layer) ? kExpertsWord : kMlpWord;
    if (!list.layer_mixers.empty()) mixer = entry_of(list.layer_mixers, layer);
    if (!list.layer_feed_forwards.empty()) feed_forward = entry_of(list.layer_feed_forwards, layer);
    variants.push_back(variant_of(model, mixer, feed_forward, layer, tokens));
  }
  return variants;
}

namespace {

/// The layers of a prediction module: as listed, else one like the last layer.
std::vector<LayerVariant> prediction_layers(const ModelDescription& model, const LayerVariant& last,
                                            std::int64_t tokens) {
  const LayerList& list = model.list;
  if (list.prediction_mixers.empty()) return {last};
  std::vector<LayerVariant> variants;
  for (std::size_t i = 0; i < list.prediction_mixers.size(); ++i) {
    variants.push_back(variant_of(model, list.prediction_mixers[i],
                                  list.prediction_feed_forwards[i],
                                  model.layers + static_cast<std::int64_t>(i), tokens));
  }
  return variants;
}

std::string block_name(const Stack& stack, const LayerVariant& variant) {
  std::string name = stack.name;
  const bool listed = !stack.model.list.empty();
  if (listed && variant.mixer != kNoneWord) name += "-" + variant.mixer;
  if (listed && variant.feed_forward != kNoneWord) name += "-" + variant.feed_forward;
  if (!listed && stack.model.moe.has_value())
    name += variant.feed_forward == kExpertsWord ? "-experts" : "-dense";
  if (variant.span.window.has_value()) name += "-window";
  if (variant.bare) name += "-first";
  return name;
}

/// The indexer of the attention of a layer.
const IndexDescription* index_of(const ModelDescription& model, const LayerVariant& variant) {
  for (const std::string& name : mixers_of(variant.mixer)) {
    const AttentionDescription* a = attention_called(model, name);
    if (a != nullptr && a->index) return &*a->index;
  }
  return nullptr;
}

std::size_t layer_block(Network& network, const Stack& stack, BlockKind kind,
                        const LayerVariant& variant, const Stack* memory) {
  BlockBuilder block(network, block_name(stack, variant), kind);
  const TensorId stream = block.input("stream", residual_dims(block, stack));
  LayerLinks links;
  if (memory != nullptr) links.memory = block.input("memory", memory->stream());
  const IndexDescription* index = index_of(stack.model, variant);
  if (index != nullptr && index->shared)
    links.chosen =
        block.input("chosen", chosen_dims(block, stack, *index), ElementClass::Statistic);
  const TensorId out = add_layer(block, stack, variant, stream, links);
  const auto& mixers = stack.model.list.mixers;
  const bool shares = std::ranges::any_of(mixers, [](const MixerDescription& mixer) {
    return mixer.attention.index && mixer.attention.index->shared;
  });
  const bool chooses = shares && index != nullptr && !index->shared && links.chosen;
  return block.finish(chooses ? std::vector<TensorId>{out, *links.chosen}
                              : std::vector<TensorId>{out});
}

/// Edges from every layer that chooses keys to the layers behind it that share its choice.
void share_choices(Network& network, const ModelDescription& model,
                   const std::vector<LayerVariant>& variants, std::int64_t layers_from) {
  std::int64_t from = -1;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const IndexDescription* index = index_of(model, variants[i]);
    if (index == nullptr) continue;
    const std::int64_t position = layers_from + static_cast<std::int64_t>(i);
    if (!index->shared) {
      from = position;
      continue;
    }
    std::vector<Edge>& edges = network.edges;
    const bool longer = !edges.empty() && edges.back().from == from &&
                        edges.back().to + edges.back().readers == position;
    if (longer) {
      ++edges.back().readers;
    } else {
      edges.push_back({.from = from, .output = 1, .to = position, .readers = 1, .input = 1});
    }
  }
}

void append_run(Network& network, std::size_t block) {
  if (!network.order.empty() && network.order.back().block == block) {
    ++network.order.back().count;
  } else {
    network.order.push_back({block, 1});
  }
}

}  // namespace

void append_layers(Network& network, const Stack& stack, std::int64_t layers, BlockKind kind,
                   const std::vector<LayerVariant>& variants, const Stack* memory) {
  std::vector<std::pair<LayerVariant, std::size_t>> known;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const LayerVariant& variant = variants[static_cast<std::size_t>(layer)];
    auto found =
        std::ranges::find_if(known, [&](const auto& entry) { return entry.first == variant; });
    if (found == known.end()) {
      known.emplace_back(variant, layer_block(network, stack, kind, variant, memory));
      found = std::prev(known.end());
    }
    append_run(network, found->second);
  }
}

void build_language_model(Network& network, const ModelDescription& model,
                          const NetworkOptions& options) {
  const std::int64_t tokens = options.seq_len.value_or(model.training.seq_len);
  const bool causal = model.stack == StackKind::Decoder;
  const Stack stack =
      make_stack(network, model, options, causal ? "decoder" : "encoder", "sequence", tokens);
  append_run(network, embedding_block(network, stack, options));
  const std::vector<LayerVariant> variants = layer_variants(model, tokens);
  const std::int64_t layers_from = copy_count(network);
  append_layers(network, stack, model.layers, causal ? BlockKind::Decoder : BlockKind::Encoder,
                variants, nullptr);
  share_choices(network, model, variants, layers_from);
  for (std::int64_t i = 1; i <= model.mtp_layers; ++i) {
    const auto layers = prediction_layers(model, variants.back(), tokens);
    append_run(network, prediction_block(network, stack, options, layers, i));
  }
  append_run(network, head_block(network, stack, options));
}

Network build_network(const ModelDescription& description, const NetworkOptions& options) {
  PLANSEARCH_CHECK(contradictions(description).empty());
  Network network;
  if (description.graph) network = *description.graph;
  network.name = description.name;
  if (description.moe.has_value()) {
    const MoeDescription& moe = *description.moe;
    network.routing = Routing{moe.experts,   moe.top_k,  moe.capacity_factor,
                              moe.imbalance, moe.groups, moe.top_groups};
  }
  switch (description.stack) {
    case StackKind::Decoder:
    case StackKind::Encoder:
      build_language_model(network, description, options);
      break;
    case StackKind::EncoderDecoder:
      build_encoder_decoder(network, description, options);
      break;
    case StackKind::Vision:
      build_vision(network, description, options);
      break;
    case StackKind::Graph:
      break;
  }
  const TrainingDefaults& training = description.training;
  freeze(network, training.frozen);
  if (training.lora) add_adapters(network, description);
  Images images = options.images;
  images.frozen = images.frozen || training.lora.has_value();
  if (images.count > 0) join_tower(network, *description.tower.value().network, images);
  const bool frozen_tower = images.count > 0 && images.frozen;
  if (training.lora || !training.frozen.empty() || frozen_tower) follow_gradients(network);
  list_saved_once(network);
  return network;
}

}  // namespace plansearch
