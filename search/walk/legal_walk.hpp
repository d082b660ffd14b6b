// SPDX-License-Identifier: Apache-2.0
// A walk through a space that stops where nothing below can be legal.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "plan/legality/legality.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/space.hpp"

namespace plansearch {

/// Every condition of a legal plan is checked at the first level where all degrees that it reads
/// are decided: other degrees cannot change its verdict. Immutable; safe to share between threads.
class LegalWalk {
 public:
  LegalWalk(const PlanEvaluator& evaluator, SearchSpace space)
      : walk_(std::move(space)), conditions_(walk_.depth() + 1) {
    const Problem& problem = evaluator.problem();
    for (LegalityCondition& condition : legality_conditions(*problem.network, *problem.framework,
                                                            problem.gpus, problem.precision)) {
      conditions_[walk_.level_above(condition.reads)].push_back(std::move(condition.obstacle));
    }
  }

  [[nodiscard]] const SpaceWalk& space() const { return walk_; }
  /// Why nothing below a plan whose outer `level` dimensions are decided can be legal, as far as
  /// its innermost decided dimension tells.
  [[nodiscard]] std::optional<Obstacle> obstacle(std::size_t level, const PlanDegrees& plan) const {
    for (const auto& condition : conditions_[level]) {
      if (const auto found = condition(plan)) return found;
    }
    return std::nullopt;
  }

  /// Calls visit(plan) with every legal partial plan of level `to` below one of level `from`, in
  /// order, and reject(obstacle, level, plan) with the roots of what it leaves out.
  template <typename Visit, typename Reject>
  void visit(std::size_t from, std::size_t to, const PlanDegrees& plan, const Visit& visit_plan,
             const Reject& reject) const {
    if (from == to) {
      visit_plan(plan);
      return;
    }
    walk_.for_each_value(from, plan, [&](const PlanDegrees& next) {
      if (const auto found = obstacle(from + 1, next)) {
        reject(*found, from + 1, next);
      } else {
        visit(from + 1, to, next, visit_plan, reject);
      }
    });
  }

 private:
  SpaceWalk walk_;
  std::vector<std::vector<std::function<std::optional<Obstacle>(const PlanDegrees&)>>> conditions_;
};

}  // namespace plansearch
