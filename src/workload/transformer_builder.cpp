// SPDX-License-Identifier: Apache-2.0
#include "plansearch/transformer_builder.hpp"
#include "base/ranges.hpp"

#include <algorithm>

#include "plansearch/error.hpp"
#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

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
AttentionSpan span_of(const ModelDescription& model, std::int64_t layer, std::int64_t tokens) {
  const AttentionDescription& a = model.attention;
  AttentionSpan span;
  span.visibility = model.stack == StackKind::Decoder ? Visibility::Causal : Visibility::All;
  if (a.window.has_value() && *a.window < tokens && !sees_all(a, layer)) {
    span.window = a.window;
    span.window_kind = a.window_kind;
  }
  return span;
}

std::vector<LayerVariant> variants_of(const ModelDescription& model, std::int64_t tokens) {
  std::vector<LayerVariant> variants;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool bare = layer == 0 && !model.norm.first_norm;
    variants.push_back({has_experts(model, layer), span_of(model, layer, tokens), false, bare});
  }
  return variants;
}

std::string block_name(const Stack& stack, const LayerVariant& variant) {
  std::string name = stack.name;
  if (stack.model.moe.has_value()) name += variant.experts ? "-experts" : "-dense";
  if (variant.span.window.has_value()) name += "-window";
  if (variant.bare) name += "-first";
  return name;
}

std::size_t layer_block(Network& network, const Stack& stack, BlockKind kind,
                        const LayerVariant& variant, const Stack* memory) {
  BlockBuilder block(network, block_name(stack, variant), kind);
  const TensorId stream = block.input("stream", stack.stream());
  if (memory == nullptr) {
    const TensorId out = add_layer(block, stack, variant, stream, std::nullopt);
    return block.finish({out});
  }
  const TensorId encoded = block.input("memory", memory->stream());
  const TensorId out = add_layer(block, stack, variant, stream, encoded);
  return block.finish({out});
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
  const std::vector<LayerVariant> variants = variants_of(model, tokens);
  append_layers(network, stack, model.layers, causal ? BlockKind::Decoder : BlockKind::Encoder,
                variants, nullptr);
  for (std::int64_t i = 1; i <= model.mtp_layers; ++i) {
    append_run(network, prediction_block(network, stack, options, variants.back(), i));
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
  if (training.lora || !training.frozen.empty()) follow_gradients(network);
  list_saved_once(network);
  return network;
}

}  // namespace plansearch
