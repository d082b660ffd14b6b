// SPDX-License-Identifier: Apache-2.0
// The best plans whose stages may differ in layers, devices, degrees and recomputation, by what
// this program predicts for whole plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/plan_stages.hpp"
#include "plansearch/search.hpp"
#include "search/planner/stage_forms.hpp"

namespace plansearch {

struct StagedCandidate {
  ParallelPlan plan;
  Estimate estimate;  ///< simulated
  /// Plans that tie with it and differ in the chunks and the order of a pipeline only.
  std::vector<PlanDegrees> variants{};
};

/// By time, then by memory.
[[nodiscard]] inline bool staged_before(const StagedCandidate& a, const StagedCandidate& b) {
  return std::pair(a.estimate.step.total(), a.estimate.memory.total()) <
         std::pair(b.estimate.step.total(), b.estimate.memory.total());
}

/// How partial plans were dealt with.
struct UnevenCounts {
  double space = 0.0;          ///< plans
  std::int64_t stages = 0;     ///< priced ways to run some layers on a sub-mesh
  std::int64_t extended = 0;   ///< partial plans that were continued
  std::int64_t simulated = 0;  ///< whole plans
};

struct UnevenResult {
  std::vector<StagedCandidate>
      ranked;  ///< fastest first; one of those that differ in layers and recomputation only
  MemoryFit admitted = MemoryFit::Fits;
  UnevenCounts counts;
  Completeness completeness = Completeness::Optimal;
  /// What the answer is, where it is not the optimum of the space; and what the space leaves out.
  std::string claim{};
  std::vector<std::string> left_out{
      "orders that split the backward pass or hold several chunks of a stage"};
  /// No plan is faster than this; below the best one's time where the search was cut short, zero
  /// where nothing is known of what is left.
  Seconds bound;
};

/// Plans are taken in the order of an admissible bound and simulated, until the bound exceeds the
/// best: that one is optimal. Beyond `most_extended` partial plans the search stops and says how
/// far it can be from the optimum.
[[nodiscard]] UnevenResult search_uneven(const PlanEvaluator& evaluator,
                                         const StageRequest& request, const SearchOptions& options,
                                         std::int64_t most_extended = 200'000);

}  // namespace plansearch
