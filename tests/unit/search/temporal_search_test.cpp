// SPDX-License-Identifier: Apache-2.0
// The search of sequences against plans that a user names.
#include "search/strategies/strategy.hpp"

#include <doctest/doctest.h>

#include "plan/placements/ring_placements.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/plan_stages.hpp"
#include "support/search_space.hpp"
#include "support/tensor_group.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::temporal_search_test {
namespace {

/// `predict --temporal 2x2`.
Seconds step_of_squares(Problem problem, const PlanDegrees& degrees) {
  auto names = square_placements(*problem.network, degrees, 2);
  REQUIRE(std::holds_alternative<PlacementNames>(names));
  auto resolved = resolve_placements(std::get<PlacementNames>(names), *problem.network, degrees,
                                     *problem.framework);
  REQUIRE(std::holds_alternative<DistinguishedNetwork>(resolved));
  const auto& made = std::get<DistinguishedNetwork>(resolved);
  problem.network = made.network;
  auto plan = expand(degrees, *problem.network, *problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  auto placed = with_placements(std::get<ParallelPlan>(std::move(plan)), made.placements,
                                *problem.network, *problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(placed));
  const Evaluation priced = PlanEvaluator(problem).evaluate(std::get<ParallelPlan>(placed));
  REQUIRE(std::holds_alternative<Estimate>(priced));
  return std::get<Estimate>(priced).step.total();
}

TEST_SUITE("unit") {
  TEST_CASE("space temporal: no slower than squares named for every product") {
    // Squares inside four devices, and inside eight with norms replicated around them.
    const Problem problem = test::squares_problem();
    const PlanEvaluator evaluator(problem);
    for (const int tensor : {4, 8}) {
      PlanDegrees degrees = test::tensor_groups(problem, tensor, 2);
      degrees.sequence_parallel = SequenceParallel::Off;
      PinnedDegrees pinned;
      pinned.pin(Degree::TensorOut, tensor);
      pinned.pin(Degree::MicroBatch, 2);
      pinned.pin(Degree::Recompute, static_cast<int>(Recompute::None));
      const SearchResult found = test::search_space("temporal", evaluator, {pinned, {}});
      REQUIRE_FALSE(found.ranked.empty());
      CHECK(found.ranked.front().estimate.step.total().value() <=
            step_of_squares(problem, degrees).value() * (1.0 + 1e-9));
    }
  }

  TEST_CASE("space temporal: over stages too, and no slower than the plans of the framework") {
    const Problem problem = test::squares_problem();
    const PlanEvaluator evaluator(problem);
    const SearchResult plain = test::search_space("framework", evaluator, {});
    SearchRequest one_stage;
    one_stage.pinned.pin(Degree::Pipeline, 1);
    const SearchResult flat = test::search_space("temporal", evaluator, one_stage);
    const SearchResult found = test::search_space("temporal", evaluator, {});
    REQUIRE_FALSE(plain.ranked.empty());
    REQUIRE_FALSE(flat.ranked.empty());
    REQUIRE_FALSE(found.ranked.empty());
    const Seconds best = found.ranked.front().estimate.step.total();
    CHECK(best <= plain.ranked.front().estimate.step.total());
    CHECK(best <= flat.ranked.front().estimate.step.total());
    CHECK(found.counts.space > flat.counts.space);
  }

  TEST_CASE("spaces of single operators: the same answer for any number of threads") {
    const Problem problem = test::squares_problem();
    const PlanEvaluator evaluator(problem);
    for (const char* space : {"temporal", "primepar", "operators"}) {
      CAPTURE(space);
      SearchRequest request;
      request.limits.allow(Degree::TensorOut, {2, 4});
      const auto found = [&](int threads, std::size_t top) {
        SearchOptions options;
        options.threads = threads;
        options.top = top;
        return test::search_space(space, evaluator, request, options);
      };
      for (const std::size_t top : {1, 10}) {
        const SearchResult one = found(1, top);
        REQUIRE_FALSE(one.ranked.empty());
        for (const int threads : {2, 3}) {
          const SearchResult several = found(threads, top);
          CHECK(several.ranked == one.ranked);
          CHECK(several.front == one.front);
          CHECK(several.counts == one.counts);
          CHECK(several.claim == one.claim);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plansearch::temporal_search_test
