// SPDX-License-Identifier: Apache-2.0
// What legality asks of a network, read from its operators and parameters; not installed.
#pragma once

#include <cstdint>

#include "plansearch/data_type.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/network.hpp"

namespace plansearch::legality {

/// The smallest extent of a role; 0 where the network has no such dimension.
[[nodiscard]] std::int64_t smallest_extent(const Network& network, DimRole role);
[[nodiscard]] bool has_role(const Network& network, DimRole role);

/// Attention scores are written out: a softmax over keys of its own.
[[nodiscard]] bool materialises_scores(const Network& network);
/// Some queries see a window of the keys only.
[[nodiscard]] bool attends_to_window(const Network& network);
/// Attention with learned sink logits.
[[nodiscard]] bool has_attention_sinks(const Network& network);
/// Attention that adds a bias to its scores (relative positions).
[[nodiscard]] bool has_attention_bias(const Network& network);
/// Expert matrix products that add a bias.
[[nodiscard]] bool has_expert_bias(const Network& network);
/// Embedding and head are one parameter.
[[nodiscard]] bool ties_embeddings(const Network& network);
/// Modules that predict further tokens, with the word embedding of the network.
[[nodiscard]] bool has_prediction_modules(const Network& network);

/// Elements of the blocks in which a matrix engine takes its operands.
struct OperandBlock {
  std::int64_t features = 1;
  std::int64_t tokens = 1;
};
[[nodiscard]] OperandBlock operand_block(DataType matmul);
/// Every matrix product of a layer has whole blocks of features and of tokens on one rank.
[[nodiscard]] bool fits_blocks(const Network& network, const PlanDegrees& plan,
                               const OperandBlock& block);

}  // namespace plansearch::legality
