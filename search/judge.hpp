// SPDX-License-Identifier: Apache-2.0
// One ranking for the plans of every strategy: thresholds, the best so far, the Pareto front.
#pragma once

#include <optional>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/ranking.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// What a plan must beat to enter the answer. Frozen while a batch runs, so that the same plans
/// are pruned whatever the number of threads.
struct Thresholds {
  std::optional<Seconds> time;       ///< the K-th best simulated step time so far
  std::vector<PlanCandidate> front;  ///< the Pareto front so far, fastest first

  /// True when neither the ranking nor the front can change through a plan with this bound.
  [[nodiscard]] bool exclude(const PlanBound& bound) const;
};

/// A plan that may still enter the answer.
struct Contender {
  PlanCandidate candidate;  ///< priced by closed form
  Seconds bound;
};

/// Takes in plans batch by batch; what it keeps does not depend on how they were found.
class Judge {
 public:
  Judge(const PlanEvaluator& evaluator, std::size_t top) : evaluator_(evaluator), top_(top) {}

  [[nodiscard]] const Thresholds& thresholds() const { return thresholds_; }

  /// The fastest step so far.
  [[nodiscard]] std::optional<Seconds> fastest() const;

  /// Simulates the contenders of a batch, most promising first, until no other can enter the best,
  /// and tightens the thresholds.
  void take(std::vector<Contender> contenders);

  /// Fills `ranked`, `front` and the number of simulations.
  void conclude(SearchResult& result);

 private:
  [[nodiscard]] PlanCandidate simulated(const PlanDegrees& plan);
  [[nodiscard]] bool is_known(const PlanDegrees& plan) const;
  void insert(PlanCandidate candidate);

  const PlanEvaluator& evaluator_;
  std::size_t top_;
  EvaluationWorkspacePtr workspace_ = PlanEvaluator::make_workspace();
  Thresholds thresholds_;
  std::vector<PlanCandidate> best_;
  std::int64_t simulations_ = 0;
};

}  // namespace plansearch
