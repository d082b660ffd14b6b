// SPDX-License-Identifier: Apache-2.0
// From the description of an architecture to its operator graph.
#pragma once

#include <cstdint>
#include <optional>

#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Whether the attention scores are materialised.
enum class AttentionKind {
  Fused,    ///< one kernel that keeps only row statistics (FlashAttention)
  Unfused,  ///< scores, softmax, dropout and context as operators of their own
};

struct NetworkOptions {
  AttentionKind attention = AttentionKind::Fused;
  std::optional<std::int64_t> seq_len{};          ///< default: the description's training length
  std::optional<std::int64_t> decoder_seq_len{};  ///< encoder-decoder only
  std::optional<std::int64_t> padded_vocab{};     ///< rows of the tables a framework allocates
};

/// Builds the network of one sequence. The description must be free of contradictions; a broken
/// one is an InternalError (readers report them to the user).
[[nodiscard]] Network build_network(const ModelDescription& description,
                                    const NetworkOptions& options = {});

/// Rows of the vocabulary after padding to a multiple of `multiple` (Megatron: 128 x tp).
[[nodiscard]] std::int64_t pad_vocabulary(std::int64_t vocab, std::int64_t multiple);

}  // namespace plansearch
