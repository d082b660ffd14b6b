// SPDX-License-Identifier: Apache-2.0
// The best plans whose stages may differ in layers, devices, degrees and recomputation, by what
// this program predicts for whole plans.
#pragma once

#include <algorithm>
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

/// Keeps a candidate that no other beats in both, and what it does not beat.
inline void add_to_front(std::vector<StagedCandidate>& front, const StagedCandidate& candidate) {
  const auto beats = [](const StagedCandidate& a, const StagedCandidate& b) {
    return a.estimate.step.total() <= b.estimate.step.total() &&
           a.estimate.memory.total() <= b.estimate.memory.total();
  };
  for (const StagedCandidate& member : front) {
    if (beats(member, candidate)) return;
  }
  std::erase_if(front, [&](const StagedCandidate& member) { return beats(candidate, member); });
  front.insert(std::upper_bound(front.begin(), front.end(), candidate, staged_before), candidate);
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
  /// Over step time and memory, fastest first, of the plans that were priced: bounds leave out
  /// slower ones that need less memory.
  std::vector<StagedCandidate> front{};
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
