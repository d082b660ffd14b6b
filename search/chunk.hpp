// SPDX-License-Identifier: Apache-2.0
// What one thread does with a run of prefixes, given thresholds frozen before the batch.
#pragma once

#include <span>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/search.hpp"
#include "plansearch/space.hpp"

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

struct ChunkResult {
  SearchCounts counts;
  std::vector<Contender> contenders;
  std::vector<NearMiss> misses;  ///< at most kNearMisses, nearest first
};

inline constexpr std::size_t kNearMisses = 5;

/// Keeps the nearest of both lists, in a total order.
void merge_misses(std::vector<NearMiss>& into, const std::vector<NearMiss>& more);

[[nodiscard]] ChunkResult process_prefixes(const PlanEvaluator& evaluator, const SpaceWalk& walk,
                                           std::span<const SpacePrefix> prefixes,
                                           const Thresholds& thresholds, Pruning pruning);

}  // namespace plansearch
