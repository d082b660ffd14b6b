// SPDX-License-Identifier: Apache-2.0
#include "plansearch/search.hpp"

#include <doctest/doctest.h>

#include "support/spaces.hpp"
#include "support/toy_problem.hpp"

namespace plansearch {
namespace {

SearchSpace toy_space(const Problem& problem) {
  SearchSpace space = all_degrees(problem);
  space.name = "toy";
  space.dimension(Degree::ContextKind).values = {static_cast<int>(ContextKind::Ring)};
  space.dimension(Degree::Zero).values = {0, 1};
  space.dimension(Degree::MicroBatch).values = {1, 2, 4, 8};
  space.dimension(Degree::Chunks).values = {1, 2, 4};
  look_at_equal_orders_once(space);
  return space;
}

SearchOptions options(Pruning pruning, int threads) {
  SearchOptions o;
  o.pruning = pruning;
  o.threads = threads;
  o.top = 10;
  return o;
}

TEST_SUITE("differential") {
  TEST_CASE("pruning never changes the answer") {
    for (const double memory : {4.0, 12.0, 80.0}) {
      test::ToyOptions toy;
      toy.memory_gib = memory;
      const PlanEvaluator evaluator(test::toy_problem(toy));
      const SearchSpace space = toy_space(evaluator.problem());
      const SearchResult pruned = search(evaluator, space, options(Pruning::On, 1));
      const SearchResult all = search(evaluator, space, options(Pruning::Off, 1));
      CHECK(pruned.ranked == all.ranked);
      CHECK(pruned.front == all.front);
      CHECK(all.counts.pruned == 0);
      if (memory > 50.0) CHECK(pruned.counts.pruned > 0);
    }
  }

  TEST_CASE("pruning never changes the answer, with every schedule there is") {
    for (const double memory : {12.0, 80.0}) {
      test::ToyOptions toy;
      toy.memory_gib = memory;
      Problem problem = test::toy_problem(toy);
      Framework framework = *problem.framework;
      framework.schedules = schedule_names();
      problem.framework = std::make_shared<const Framework>(framework);
      const PlanEvaluator evaluator(problem);
      SearchSpace space = toy_space(evaluator.problem());
      space.dimension(Degree::Schedule).values = order_values(framework);
      space.dimension(Degree::MicroBatch).values = {1, 2};
      space.dimension(Degree::Recompute).values = {static_cast<int>(Recompute::None)};
      const SearchResult pruned = search(evaluator, space, options(Pruning::On, 1));
      const SearchResult all = search(evaluator, space, options(Pruning::Off, 1));
      CHECK(pruned.ranked == all.ranked);
      CHECK(pruned.front == all.front);
      CHECK(all.counts.evaluated > pruned.counts.evaluated);
    }
  }

  TEST_CASE("every plan is accounted for exactly once") {
    const PlanEvaluator evaluator(test::toy_problem());
    const SearchResult result =
        search(evaluator, toy_space(evaluator.problem()), options(Pruning::On, 2));
    const SearchCounts& c = result.counts;
    CHECK(c.unvisited == 0);
    CHECK(c.evaluated + c.pruned + c.rejected_total() == c.space);
    CHECK(result.completeness == Completeness::Optimal);
  }
}

TEST_SUITE("determinism") {
  TEST_CASE("any number of threads gives the same answer and the same counts") {
    const PlanEvaluator evaluator(test::toy_problem());
    const SearchSpace space = toy_space(evaluator.problem());
    const SearchResult one = search(evaluator, space, options(Pruning::On, 1));
    for (const int threads : {2, 5}) {
      const SearchResult many = search(evaluator, space, options(Pruning::On, threads));
      CHECK(many.ranked == one.ranked);
      CHECK(many.front == one.front);
      CHECK(many.counts == one.counts);
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("when nothing fits the nearest misses are named") {
    test::ToyOptions toy;
    toy.memory_gib = 0.5;
    const PlanEvaluator evaluator(test::toy_problem(toy));
    const SearchResult result =
        search(evaluator, toy_space(evaluator.problem()), options(Pruning::On, 1));
    CHECK(result.ranked.empty());
    REQUIRE_FALSE(result.misses.empty());
    CHECK(result.misses.size() <= 5);
    for (const NearMiss& miss : result.misses) CHECK(miss.estimate.memory.total() > miss.limit);
    CHECK(result.counts.rejected[static_cast<std::size_t>(Obstacle::OutOfMemory)] > 0);
  }

  TEST_CASE("an interrupted search says so and keeps its best") {
    const PlanEvaluator evaluator(test::toy_problem());
    const std::atomic<bool> stop{true};
    SearchOptions o = options(Pruning::On, 1);
    o.interrupted = &stop;
    const SearchResult result = search(evaluator, toy_space(evaluator.problem()), o);
    CHECK(result.completeness == Completeness::Stopped);
    CHECK(result.counts.unvisited > 0);
    CHECK_FALSE(result.ranked.empty());
  }
}

}  // namespace
}  // namespace plansearch
