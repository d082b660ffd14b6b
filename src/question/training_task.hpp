// SPDX-License-Identifier: Apache-2.0
// The task that a network is trained for, its optimizer, and its documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plansearch/framework.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch {

/// Whether a network that is trained already goes on from there: its tasks have defaults of their
/// own, which are those of trainers.
[[nodiscard]] bool is_tuning(const ProblemRequest& request);
inline constexpr std::string_view kTuningFramework = "hf-trainer";
inline constexpr std::int64_t kTuningLength =
    4096;  ///< longer networks are tuned on so many tokens
inline constexpr std::int64_t kTuningBatch =
    32;  ///< sequences; as many as GPUs where those are more

/// Default rank of the adapters of `--task lora`.
inline constexpr std::int64_t kUsualAdapterRank = 16;

/// The same question with a named optimizer of trainers resolved into its states and their place:
/// "paged-adamw-8bit" is adam, moments in int8, pages. Values stated separately stay.
[[nodiscard]] ProblemRequest with_plain_optimizer(ProblemRequest asked);

[[nodiscard]] bool lacks_optimizer(const Framework& framework, OptimizerKind optimizer);

/// The framework runs the optimizer: from then on it follows the rules that it has for it.
/// InputError where it has no such optimizer.
void take_optimizer(Framework& framework, OptimizerKind optimizer);

/// Lengths of the documents that fill sequences of `tokens`, longer ones cut: "512" (all alike),
/// "512x3+2048x1" (three of four), "exponential:512" (the mean), "lognormal:512:1.2" (the mean, and
/// the deviation of logarithms), or a file with a length a line, behind it how many documents have
/// it. InputError for other texts, with the line of a file.
[[nodiscard]] Documents read_documents(const std::string& text, std::int64_t tokens);

/// InputError where attention does not follow documents: `unfused` scores are made of all pairs of
/// tokens, and networks other than transformers of one sequence have operators of their own.
void check_packing(const ModelDescription& model, AttentionKind attention);

/// InputError for networks and frameworks that are not trained on pairs.
void check_pairs(const Framework& framework, const ModelDescription& model);

/// Preferences: before each micro-batch the reference passes it once more. Adapters are switched
/// off for it; where all weights are trained it has its own, frozen.
void add_reference(Network& network);

}  // namespace plansearch
