// SPDX-License-Identifier: Apache-2.0
// One total order on priced plans, the Pareto front, and when two plans are too close to call.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/evaluation.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan.hpp"

namespace plansearch {

struct PlanCandidate {
  PlanDegrees plan;  ///< of a plan that is written out, those of its first stage
  Estimate estimate;
  /// The plan written out stage by stage, where degrees alone do not describe it.
  std::shared_ptr<const ParallelPlan> written{};
  bool operator==(const PlanCandidate& other) const;
};

/// The plan written out. InternalError where the degrees stand for none.
[[nodiscard]] ParallelPlan whole_plan(const PlanEvaluator& evaluator,
                                      const PlanCandidate& candidate);

/// Median step time, then peak memory, then the plan itself: no two different plans compare equal.
[[nodiscard]] bool ranks_before(const PlanCandidate& a, const PlanCandidate& b);

/// The candidates no other beats in both step time and memory, fastest first.
[[nodiscard]] std::vector<PlanCandidate> pareto_front(std::vector<PlanCandidate> candidates);

/// Adds a candidate to a front, fastest first, and removes those it beats in both.
void add_to_front(std::vector<PlanCandidate>& front, const PlanCandidate& candidate);

/// The chance that `a` really is faster than `b`, when their errors share everything but a
/// log-normal remainder of relative size `paired_sigma`.
[[nodiscard]] double probability_faster(Seconds a, Seconds b, double paired_sigma);

/// Below this chance two plans are reported as a tie.
inline constexpr double kTieProbability = 0.8;

/// The ratio of two step times from which on the plans are not tied.
[[nodiscard]] double tied_ratio(double paired_sigma);

/// The part that variants of one plan share: everything but the chunks of its pipeline, their
/// order, how keys and values meet under context parallelism, whether optimizer states are sharded,
/// and what is on the host.
[[nodiscard]] PlanDegrees plan_family(PlanDegrees plan);

/// A plan and its variants: the simplest one first, the others by time.
using PlanGroup = std::vector<PlanCandidate>;

/// The `top` best groups of ranked plans, by the time of the plan that stands for each. Plans of
/// one family that do not tie with its fastest make further groups.
[[nodiscard]] std::vector<PlanGroup> grouped_variants(const std::vector<PlanCandidate>& ranked,
                                                      double paired_sigma, std::size_t top);

}  // namespace plansearch
