// SPDX-License-Identifier: Apache-2.0
// Computes: plans that recompute as few layers of every chunk as have room.
// Source: every recomputed layer takes time and gives memory back: of plans that differ in their
//         number alone, the one with the fewest that fit is the fastest. Found by bisection.
// Assumes: a good plan of this kind is near a good one that recomputes all layers and has no room
//          for recomputing none: of those that were not ranked, only what no other beats in both
//          step time and memory is looked into.
// Units: layers, bytes, seconds.
// Checked by: tests/unit/search/fewest_layers_test.cpp, against every number of layers
#include "search/strategies/strategy.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

class FewestLayers {
 public:
  FewestLayers(const PlanEvaluator& evaluator, MemoryFit admitted)
      : evaluator_(evaluator),
        layers_(count_layers(*evaluator.problem().network)),
        admitted_(admitted) {}

  [[nodiscard]] bool has_room_for_all(PlanDegrees plan) {
    plan.recompute = Recompute::None;
    return fits(candidate(plan));
  }

  [[nodiscard]] std::optional<PlanCandidate> of(const PlanDegrees& all) {
    const std::int64_t chunks = std::int64_t{1} * all.pipeline * all.chunks;
    std::optional<PlanCandidate> found;
    int too_few = 0;
    auto enough = static_cast<int>((layers_ + chunks - 1) / chunks);  // all: known to fit
    while (enough - too_few > 1) {
      const int middle = (too_few + enough) / 2;
      PlanCandidate looked = with_layers(all, middle);
      const bool room = fits(looked);
      (room ? enough : too_few) = middle;
      if (room) found = std::move(looked);
    }
    return found;
  }

 private:
  [[nodiscard]] PlanCandidate with_layers(PlanDegrees plan, int layers) {
    plan.recompute_layers = layers;
    return candidate(plan);
  }
  [[nodiscard]] PlanCandidate candidate(const PlanDegrees& plan) {
    return {plan, evaluator_.simulate(*evaluator_.profile(plan), plan, *workspace_)};
  }
  [[nodiscard]] bool fits(const PlanCandidate& candidate) const {
    return candidate.estimate.memory.total() <=
           evaluator_.memory_up_to(admitted_, evaluator_.certain_memory(candidate.plan));
  }

  const PlanEvaluator& evaluator_;
  EvaluationWorkspacePtr workspace_ = PlanEvaluator::make_workspace();
  std::int64_t layers_;
  MemoryFit admitted_;
};

bool recomputes_all(const PlanCandidate& candidate) {
  return !candidate.written && candidate.plan.recompute == Recompute::Full &&
         candidate.plan.recompute_layers == 0;
}

}  // namespace

int add_fewest_layers(const PlanEvaluator& evaluator, SearchResult& result) {
  if (evaluator.problem().framework->partial_recompute == PartialRecompute::None) return 0;
  std::vector<PlanCandidate> all;
  for (const auto* plans : {&result.ranked, &result.recomputing}) {
    std::copy_if(plans->begin(), plans->end(), std::back_inserter(all), recomputes_all);
  }
  FewestLayers fewest(evaluator, result.admitted);
  std::set<PlanDegrees> seen;
  int looked_into = 0;
  const auto of = [&](const PlanDegrees& plan) -> std::optional<PlanCandidate> {
    if (!seen.insert(plan).second || fewest.has_room_for_all(plan)) return std::nullopt;
    ++looked_into;
    return fewest.of(plan);
  };
  for (const PlanCandidate& candidate : all) {
    if (stop_reason() != StopReason::None) break;
    std::optional<PlanCandidate> less;
    try {
      less = of(candidate.plan);
    } catch (const Stopped&) {
      break;
    }
    if (!less || less->estimate.step.total() >= candidate.estimate.step.total()) continue;
    const auto place =
        std::upper_bound(result.ranked.begin(), result.ranked.end(), *less, ranks_before);
    // A plan behind the last one is not known to be next.
    if (place != result.ranked.end()) result.ranked.insert(place, *less);
  }
  return looked_into;
}

}  // namespace plansearch
