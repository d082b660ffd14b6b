// SPDX-License-Identifier: Apache-2.0
// The blocks before, between and after the layers, and the passes over a finished network.
#pragma once

#include <string>
#include <vector>

#include "workload/layer_parts.hpp"

namespace plansearch {

inline constexpr const char* kWordEmbeddingKey = "word_embeddings";
/// Index of the input that cross attention reads; it follows the stream.
inline constexpr std::size_t kMemoryInput = 1;

/// The dimensions of a stack over a sequence of that name and length.
[[nodiscard]] Stack make_stack(Network& network, const ModelDescription& model,
                               const NetworkOptions& options, const std::string& name,
                               const std::string& sequence, std::int64_t tokens);
[[nodiscard]] DimId vocabulary(BlockBuilder& block, const ModelDescription& model,
                               const NetworkOptions& options);

/// Word, position and token-type embeddings of a token tensor; returns the residual stream.
[[nodiscard]] TensorId add_embedding(BlockBuilder& block, const Stack& stack, TensorId token_ids,
                                     const NetworkOptions& options);
[[nodiscard]] TensorId add_dropout(BlockBuilder& block, const Stack& stack, const std::string& name,
                                   TensorId in);
/// A classifier with bias over the features of the stack, and its loss.
void add_logits_and_loss(BlockBuilder& block, const Stack& stack, TensorId in, DimId classes);

std::size_t embedding_block(Network& network, const Stack& stack, const NetworkOptions& options);
std::size_t head_block(Network& network, const Stack& stack, const NetworkOptions& options);
std::size_t prediction_block(Network& network, const Stack& stack, const NetworkOptions& options,
                             const LayerVariant& variant, std::int64_t number);
void append_layers(Network& network, const Stack& stack, std::int64_t layers, BlockKind kind,
                   const std::vector<LayerVariant>& variants, const Stack* memory);

void build_language_model(Network& network, const ModelDescription& model,
                          const NetworkOptions& options);
void build_encoder_decoder(Network& network, const ModelDescription& model,
                           const NetworkOptions& options);
void build_vision(Network& network, const ModelDescription& model, const NetworkOptions& options);

/// Marks parameters whose "block/parameter" name matches a pattern.
void freeze(Network& network, const std::vector<std::string>& patterns);
/// Freezes all parameters and adds low-rank adapters to the targets (workload/adapters.cpp).
void add_adapters(Network& network, const ModelDescription& model);
/// Drops gradients, kernels and saved tensors that nothing trained needs. The first layer that is
/// trained becomes a block of its own: its input needs no gradient.
void follow_gradients(Network& network);
/// Leaves every saved tensor at the first operator that lists it.
void list_saved_once(Network& network);

}  // namespace plansearch
