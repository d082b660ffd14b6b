// SPDX-License-Identifier: Apache-2.0
// Parts of the legality check; not installed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.hpp"
#include "plan/legality/legality.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/network.hpp"

namespace plansearch::legality {

/// Sentences are for users; a search only counts obstacles.
enum class Wording : std::uint8_t { Silent, Full };

/// The infeasibility of a plan that contradicts itself.
[[nodiscard]] inline Infeasible broken(std::string detail) {
  return {.obstacle = Obstacle::NoSuchFeature, .detail = std::move(detail)};
}

/// An infeasibility whose sentence is only made when someone reads it.
template <typename Needed, typename Available, typename Words>
[[nodiscard]] Infeasible refuse(Wording wording, Obstacle obstacle, Needed needed,
                                Available available, Words words) {
  Infeasible infeasible{obstacle, static_cast<double>(needed), static_cast<double>(available), {}};
  if (wording == Wording::Full) infeasible.detail = words();
  return infeasible;
}

template <typename Needed, typename Available>
[[nodiscard]] Infeasible refuse(Wording wording, Obstacle obstacle, Needed needed,
                                Available available, const char* words) {
  return refuse(wording, obstacle, needed, available, [words] { return std::string(words); });
}
/// The same where only the divisors of a number would do.
template <typename Words>
[[nodiscard]] Infeasible refuse_indivisible(Wording wording, Obstacle obstacle, std::int64_t ranks,
                                            std::int64_t number, Words words) {
  Infeasible infeasible = refuse(wording, obstacle, ranks, number, words);
  constexpr std::int64_t kMost = 64;
  if (wording == Wording::Full) infeasible.legal_numbers = divisors(number, kMost);
  return infeasible;
}

[[nodiscard]] std::optional<Infeasible> check_layers(const PlanDegrees& plan,
                                                     const Network& network,
                                                     const Framework& framework, Wording wording);
/// Every axis with several ranks has a place in the framework's rank order.
[[nodiscard]] std::optional<Infeasible> check_axes(const PlanDegrees& plan,
                                                   const Framework& framework);
/// A dimension that is cut by role.
[[nodiscard]] std::optional<Infeasible> check_by_role(const PlanDegrees& plan,
                                                      const Framework& framework,
                                                      const Dimension& dimension);
/// The subject of the rules of a framework file.
struct RuleCase {
  const PlanDegrees& plan;
  const Network& network;
  const Framework& framework;
  DataType precision;
};
/// The framework runs the order. Without a pipeline there is nothing to order.
[[nodiscard]] std::optional<Infeasible> check_order_listed(const RuleCase& c, Wording wording);
/// The order runs in the shape of the plan, and suits the passes of the network.
[[nodiscard]] std::optional<Infeasible> check_order_runs(const RuleCase& c, Wording wording);
/// The framework can keep the plan's host tensors in memory of the host.
[[nodiscard]] std::optional<Infeasible> check_kept_on_host(const RuleCase& c, Wording wording);
/// A micro-batch of preferences holds pairs: one loss compares the chosen and the rejected answer.
[[nodiscard]] std::optional<Infeasible> check_pairs(const RuleCase& c, Wording wording);
/// One rule of a framework file; one that is not in the vocabulary forbids nothing.
[[nodiscard]] std::optional<Infeasible> check_rule(const FrameworkRule& rule, const RuleCase& c,
                                                   Wording wording);
/// The same rule, found by its name once; absent where it is not in the vocabulary.
struct KnownRule {
  DegreeSet reads;
  bool (*broken)(const RuleCase& c, double limit);
  double limit;
  Obstacle obstacle;
};
[[nodiscard]] std::optional<KnownRule> known_rule(const FrameworkRule& rule);

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
/// Operators that take whole sequences, of which context ranks share the heads, loop over it.
[[nodiscard]] bool takes_whole_sequence(const Network& network, DimId dim);
/// Some mixers keep a state, or convolve the tokens in front of each.
[[nodiscard]] bool has_recurrence(const Network& network);
/// Attention to keys that an indexer chooses.
[[nodiscard]] bool selects_keys(const Network& network);
/// The residual has several streams.
[[nodiscard]] bool has_streams(const Network& network);
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
