// SPDX-License-Identifier: Apache-2.0
// From the description of an architecture to its operator graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/implementation.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Whether the attention scores are materialised.
enum class AttentionKind {
  Fused,    ///< one kernel that keeps only row statistics (FlashAttention)
  Unfused,  ///< scores, softmax, dropout and context as operators of their own
};

/// Documents of one length that fill a sequence with others.
struct DocumentLength {
  std::int64_t tokens = 1;
  double share = 1.0;  ///< of the documents
  bool operator==(const DocumentLength&) const = default;
};
using Documents = std::vector<DocumentLength>;

/// Images of every sequence, which the tower of a model reads.
struct Images {
  std::int64_t count = 0;
  bool frozen = false;  ///< the tower is not trained
};

struct NetworkOptions {
  AttentionKind attention = AttentionKind::Fused;
  Implementation implementation{};                ///< of the framework that runs it
  std::optional<std::int64_t> seq_len{};          ///< default: the description's training length
  std::optional<std::int64_t> decoder_seq_len{};  ///< encoder-decoder only
  std::optional<std::int64_t> padded_vocab{};     ///< rows of the tables a framework allocates
  Documents documents{};                          ///< that share a sequence; none: it is one
  Images images{};                                ///< only of descriptions with a tower
};

/// Builds the network of one sequence. The description must be free of contradictions; a broken
/// one is an InternalError (readers report them to the user).
[[nodiscard]] Network build_network(const ModelDescription& description,
                                    const NetworkOptions& options = {});

/// Tokens of a sequence in whose place the features of one image stand.
[[nodiscard]] std::int64_t tokens_of_image(const Network& tower);

/// Words for LoRA targets that the model has, in the order of the layer; all-linear is all of them.
[[nodiscard]] std::vector<std::string> adapter_targets(const ModelDescription& description);

/// Query and value, as peft's default for Llama, or the one product that makes both.
[[nodiscard]] std::vector<std::string> default_adapter_targets(const ModelDescription& description);

/// A fault of the adapters of a description, and its remedy.
struct AdapterProblem {
  std::string what;
  std::string remedy;
};
[[nodiscard]] std::optional<AdapterProblem> adapter_problem(const ModelDescription& description);

/// Patterns of frozen parameters that no "block/parameter" of the network matches.
[[nodiscard]] std::vector<std::string> patterns_without_match(
    const Network& network, const std::vector<std::string>& patterns);
[[nodiscard]] std::vector<std::string> parameter_names(const Network& network);
/// Parameters that are trained; shared ones count once.
[[nodiscard]] std::int64_t trainable_parameter_count(const Network& network);

}  // namespace plansearch
