// SPDX-License-Identifier: Apache-2.0
// One ranking for the plans of every strategy: thresholds, the best so far, the Pareto front.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/ranking.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// Predicted peaks up to which plans are ranked, and up to which the fastest is offered beside
/// them.
struct MemoryLimits {
  Bytes fits;
  Bytes tight;
};

/// What a plan must beat to enter the answer. Frozen while a batch runs, so that the same plans
/// are pruned whatever the number of threads.
struct Thresholds {
  std::optional<Seconds> time;       ///< up to which the best K families have their variants
  std::vector<PlanCandidate> front;  ///< the Pareto front so far, fastest first
  std::optional<Seconds> best;       ///< the best simulated step time, of tight plans too

  /// True when neither the ranking nor the front can change through a plan with this bound.
  [[nodiscard]] bool exclude(const PlanBound& bound) const;
  /// The same of a plan that is tight: it is of interest only when it is faster than all that fit.
  [[nodiscard]] bool exclude_tight(Seconds bound) const { return best && bound > *best; }
};

/// A plan that may still enter the answer.
struct Contender {
  PlanCandidate candidate;  ///< priced by closed form
  Seconds bound;
  MemoryFit fit = MemoryFit::Fits;  ///< or Tight
};

/// Takes in plans batch by batch; what it keeps does not depend on how they were found.
class Judge {
 public:
  /// Keeps the best `top` families, and every plan that is at most `slack` times as slow as the
  /// last of their leaders.
  Judge(const PlanEvaluator& evaluator, std::size_t top, double slack)
      : evaluator_(evaluator), top_(top), slack_(slack) {}

  [[nodiscard]] const Thresholds& thresholds() const { return thresholds_; }

  /// The fastest step so far.
  [[nodiscard]] std::optional<Seconds> fastest() const;

  /// Simulates the contenders of a batch, most promising first, until no other can enter the best,
  /// and tightens the thresholds.
  void take(std::vector<Contender> contenders);

  /// Fills `ranked`, `front`, `tight` and the number of simulations.
  void conclude(SearchResult& result);

 private:
  void take_fitting(std::vector<Contender> contenders);
  void take_tight(std::vector<Contender> contenders);
  [[nodiscard]] PlanCandidate simulated(const PlanDegrees& plan);
  /// Of any plan that fits or is tight.
  void note_time(const PlanCandidate& candidate);
  [[nodiscard]] bool is_known(const PlanDegrees& plan) const;
  void insert(PlanCandidate candidate);
  /// The fastest plan of its family?
  void note_leader(const PlanCandidate& candidate);

  const PlanEvaluator& evaluator_;
  std::size_t top_;
  double slack_;
  EvaluationWorkspacePtr workspace_ = PlanEvaluator::make_workspace();
  Thresholds thresholds_;
  std::vector<PlanCandidate> best_;
  std::map<PlanDegrees, Seconds> leaders_;  ///< by family
  std::vector<Seconds> leader_times_;       ///< theirs, in order
  std::optional<PlanCandidate> tight_;      ///< the fastest of those
  std::int64_t simulations_ = 0;
};

}  // namespace plansearch
