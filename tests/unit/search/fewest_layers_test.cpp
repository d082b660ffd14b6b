// SPDX-License-Identifier: Apache-2.0
#include "search/strategies/strategy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "plansearch/space.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::fewest_layers_test {

namespace {

Problem tight_problem(double memory_gib) {
  test::ToyOptions options;
  options.layers = 12;
  options.gpus = 2;
  options.global_batch = 64;
  options.memory_gib = memory_gib;
  Problem problem = test::toy_problem(options);
  Framework framework = *problem.framework;
  framework.partial_recompute = PartialRecompute::FirstLayers;
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  return problem;
}

/// The fastest plan that fits with any number of layers; nothing where recomputation is not
/// needed.
std::optional<PlanCandidate> brute(const PlanEvaluator& evaluator, PlanDegrees plan, int layers) {
  const auto workspace = PlanEvaluator::make_workspace();
  const Bytes room = evaluator.memory_up_to(MemoryFit::Fits);
  PlanDegrees none = plan;
  none.recompute = Recompute::None;
  const Estimate all_kept = evaluator.simulate(*evaluator.profile(none), none, *workspace);
  if (all_kept.memory.total() <= room) return std::nullopt;
  std::optional<PlanCandidate> best;
  for (int n = 1; n < layers; ++n) {
    plan.recompute_layers = n;
    const PlanCandidate candidate{plan,
                                  evaluator.simulate(*evaluator.profile(plan), plan, *workspace)};
    if (candidate.estimate.memory.total() > room) continue;
    if (!best || ranks_before(candidate, *best)) best = candidate;
  }
  return best;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("as few layers as have room: those of pricing every number of them") {
    int added = 0;
    for (const double memory : {4.6, 4.8, 5.0, 5.2, 5.4, 8.0}) {
      const PlanEvaluator evaluator(tight_problem(memory));
      const auto space = make_space("megatron", evaluator.problem(),
                                    {{Degree::Pipeline, 2}, {Degree::MicroBatch, 4}});
      const SearchResult found = search(evaluator, std::get<SearchSpace>(space), {});
      if (found.ranked.empty()) continue;
      SearchResult result = found;
      add_fewest_layers(evaluator, result);
      CHECK(result.ranked.size() >= found.ranked.size());
      CHECK(std::is_sorted(result.ranked.begin(), result.ranked.end(), ranks_before));
      for (const PlanCandidate& candidate : found.ranked) {
        if (candidate.plan.recompute != Recompute::Full) continue;
        const int layers = 12 / (candidate.plan.pipeline * candidate.plan.chunks);
        const auto best = brute(evaluator, candidate.plan, layers);
        const auto is_there = [&](const PlanCandidate& other) { return best && other == *best; };
        const bool there = std::any_of(result.ranked.begin(), result.ranked.end(), is_there);
        INFO("memory " << memory << " layers " << (best ? best->plan.recompute_layers : 0));
        CHECK(there == best.has_value());
        added += there ? 1 : 0;
      }
    }
    CHECK(added > 0);
  }

  TEST_CASE("no plan that runs all layers again leads to a faster one with fewer than the answer") {
    int behind = 0;  // the best one to start from would not rank by itself
    for (const double memory : {4.2, 4.6, 5.0, 5.4, 6.5, 8.0}) {
      CAPTURE(memory);
      const PlanEvaluator evaluator(tight_problem(memory));
      const auto space = make_space("megatron", evaluator.problem(), {});
      SearchOptions asked;
      asked.top = 1;
      asked.front = false;
      asked.recomputing = true;
      SearchResult result = search(evaluator, std::get<SearchSpace>(space), asked);
      if (result.ranked.empty() || result.admitted != MemoryFit::Fits) continue;
      const Seconds last = result.ranked.back().estimate.step.total();
      add_fewest_layers(evaluator, result);
      SearchOptions all = asked;
      all.top = 100'000;
      all.pruning = Pruning::Off;
      for (const PlanCandidate& other :
           search(evaluator, std::get<SearchSpace>(space), all).ranked) {
        if (other.plan.recompute != Recompute::Full) continue;
        const auto best =
            brute(evaluator, other.plan, 12 / (other.plan.pipeline * other.plan.chunks));
        if (!best) continue;
        CHECK(result.ranked.front().estimate.step.total() <= best->estimate.step.total());
        behind += *best == result.ranked.front() && other.estimate.step.total() > last ? 1 : 0;
      }
    }
    CHECK(behind > 0);
  }

  TEST_CASE("where a framework recomputes all layers or none, nothing is added") {
    Problem problem = tight_problem(8.0);
    Framework framework = *problem.framework;
    framework.partial_recompute = PartialRecompute::None;
    problem.framework = std::make_shared<const Framework>(std::move(framework));
    const PlanEvaluator evaluator(problem);
    const auto space = make_space("megatron", problem, {{Degree::Pipeline, 2}});
    SearchResult result = search(evaluator, std::get<SearchSpace>(space), {});
    const std::size_t before = result.ranked.size();
    CHECK(add_fewest_layers(evaluator, result) == 0);
    CHECK(result.ranked.size() == before);
  }
}

}  // namespace plansearch::fewest_layers_test
