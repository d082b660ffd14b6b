// SPDX-License-Identifier: Apache-2.0
// The pieces a transformer layer is put together from; one file each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/transformer_builder.hpp"
#include "workload/block_builder.hpp"

namespace plansearch {

/// State shared by the parts of a stack: the model, the options, the residual stream's dimensions.
struct Stack {
  const ModelDescription& model;
  AttentionKind attention = AttentionKind::Fused;
  Implementation implementation{};
  std::string name;      ///< "decoder", "encoder": prefix of shared keys
  std::string sequence;  ///< name of the token dimension
  DimId batch{};
  DimId tokens{};
  DimId hidden{};
  std::int64_t mlp_width = 0;
  const Documents& documents;  ///< that share a sequence

  [[nodiscard]] Dims stream() const { return {batch, tokens, hidden}; }
};

enum class Visibility { Causal, All };

/// Which keys a query sees.
struct AttentionSpan {
  Visibility visibility = Visibility::Causal;
  std::optional<std::int64_t> window{};
  WindowKind window_kind = WindowKind::Sliding;
  bool operator==(const AttentionSpan&) const = default;
};

/// Queries, keys and values, ready for the core.
struct Heads {
  TensorId query{};
  TensorId key{};
  TensorId value{};
  DimId query_size{};  ///< features of a query and key head
  DimId value_size{};
  /// The wider results that stay alive because the value is a view of them; empty: the value alone.
  std::vector<TensorId> value_storage{};
};

/// Share of the (query, key) pairs that are needed.
[[nodiscard]] double visible_fraction(std::int64_t queries, std::int64_t keys, AttentionSpan span);
/// The same of a sequence that documents fill, each of which sees itself alone.
[[nodiscard]] double visible_fraction(std::int64_t tokens, const Documents& documents,
                                      AttentionSpan span);

[[nodiscard]] DimId head_dimension(BlockBuilder& block, const Stack& stack);
[[nodiscard]] TensorId add_norm(BlockBuilder& block, const Stack& stack, const std::string& name,
                                TensorId in);
[[nodiscard]] TensorId add_residual(BlockBuilder& block, const Stack& stack,
                                    const std::string& name, TensorId branch, TensorId stream);
/// Self-attention up to and including the output projection.
[[nodiscard]] TensorId add_attention(BlockBuilder& block, const Stack& stack, TensorId in,
                                     AttentionSpan span);
/// Attention of the stream to the memory of an encoder, whose tokens are `memory_tokens`.
[[nodiscard]] TensorId add_cross_attention(BlockBuilder& block, const Stack& stack, TensorId in,
                                           TensorId memory);
[[nodiscard]] Heads add_latent_heads(BlockBuilder& block, const Stack& stack, TensorId in);
/// Scores, softmax, dropout and context, or the one kernel that fuses them.
[[nodiscard]] TensorId add_attention_core(BlockBuilder& block, const Stack& stack,
                                          const Heads& heads, AttentionSpan span,
                                          const std::string& prefix);
[[nodiscard]] TensorId add_mlp(BlockBuilder& block, const Stack& stack, TensorId in);
[[nodiscard]] TensorId add_experts(BlockBuilder& block, const Stack& stack, TensorId in);

/// A gated or plain MLP over the dimensions of its weights; used by dense, shared and expert MLPs.
struct MlpParts {
  std::string in_name{};
  std::string activation_name{};
  std::string out_name{};
  DimId inner{};
  Bias bias = Bias::No;
  OperatorKind kind = OperatorKind::Matmul;
  Dims per_item{};
  std::optional<TensorId> weights{};  ///< of the routed tokens, where multiplied here
  LayerModules activation{};          ///< modules of its activation
  double useful_fraction = 1.0;
};
[[nodiscard]] TensorId add_mlp_parts(BlockBuilder& block, const Stack& stack, TensorId in,
                                     const MlpParts& parts);

/// The kinds of layer one model can mix.
struct LayerVariant {
  bool experts = false;
  AttentionSpan span;
  bool cross = false;
  bool bare = false;  ///< its attention reads the stream without a norm
  bool operator==(const LayerVariant&) const = default;
};
/// Adds the operators of one layer and returns the new residual stream.
[[nodiscard]] TensorId add_layer(BlockBuilder& block, const Stack& stack,
                                 const LayerVariant& variant, TensorId stream,
                                 std::optional<TensorId> memory);

}  // namespace plansearch
