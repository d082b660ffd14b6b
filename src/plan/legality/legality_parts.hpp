// SPDX-License-Identifier: Apache-2.0
// Parts of the legality check; not installed.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/divisors.hpp"
#include "plan/legality/legality.hpp"

namespace plansearch::legality {

/// Sentences are for users; a search only counts obstacles.
enum class Wording : std::uint8_t { Silent, Full };

/// What contradicts itself.
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
/// What the rules of a framework file are asked about.
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
/// What lives in memory of the host can be kept there.
[[nodiscard]] std::optional<Infeasible> check_kept_on_host(const RuleCase& c, Wording wording);
/// Of preferences: what is chosen and what is rejected are compared in one loss.
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

}  // namespace plansearch::legality
