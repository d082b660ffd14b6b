// SPDX-License-Identifier: Apache-2.0
#include "plansearch/search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "plansearch/stop_token.hpp"
#include "support/spaces.hpp"
#include "support/toy_class.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::search_test {
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

/// The answer by a look at every plan, without bounds, subtrees or families.
struct BruteForce {
  std::vector<PlanCandidate> fitting;  ///< simulated, best first
  std::vector<PlanCandidate> tight;    ///< the same of plans that fit less surely
  std::vector<NearMiss> misses;        ///< nearest first
};

BruteForce look_at_everything(const PlanEvaluator& evaluator, const SearchSpace& space) {
  const auto workspace = PlanEvaluator::make_workspace();
  BruteForce found;
  for (const PlanDegrees& plan : test::all_plans(space)) {
    if (evaluator.obstacle(plan)) continue;
    const Bytes certain = evaluator.certain_memory(plan);
    const Bytes limit = evaluator.memory_up_to(MemoryFit::Tight, certain);
    const auto profile = evaluator.profile(plan);
    const Estimate estimate = evaluator.estimate(*profile, plan, *workspace);
    if (estimate.memory.total() > limit) {
      found.misses.push_back({plan, estimate, limit});
      continue;
    }
    const bool fits = estimate.memory.total() <= evaluator.memory_up_to(MemoryFit::Fits, certain);
    (fits ? found.fitting : found.tight)
        .push_back({plan, evaluator.simulate(*profile, plan, *workspace)});
  }
  std::sort(found.fitting.begin(), found.fitting.end(), ranks_before);
  std::sort(found.tight.begin(), found.tight.end(), ranks_before);
  std::sort(found.misses.begin(), found.misses.end(), [](const NearMiss& a, const NearMiss& b) {
    return std::tuple(a.estimate.memory.total(), a.plan) <
           std::tuple(b.estimate.memory.total(), b.plan);
  });
  return found;
}

/// The best `top` families, and whatever ties with the leader of the last.
std::vector<PlanCandidate> best_families(const PlanEvaluator& evaluator,
                                         const std::vector<PlanCandidate>& sorted,
                                         std::size_t top) {
  const auto& constants = evaluator.problem().framework->constants;
  std::set<PlanDegrees> families;
  std::vector<PlanCandidate> best;
  Seconds last;
  for (const PlanCandidate& candidate : sorted) {
    const Seconds time = candidate.estimate.step.total();
    if (families.size() < top && families.insert(plan_family(candidate.plan)).second) last = time;
    const bool all = families.size() < top;
    if (all || time <= last * tied_ratio(constants.paired_sigma)) best.push_back(candidate);
  }
  return best;
}

Problem close_contest(double memory_gib, std::int64_t experts) {
  test::ToyOptions toy;
  toy.memory_gib = memory_gib;
  toy.experts = experts;
  toy.gpus = 8;
  toy.global_batch = 16;
  return test::toy_problem(toy);
}

/// Matrices are as they are: plans differ in how much of a device is known to the byte.
Problem with_frozen_matrices(const Problem& problem) {
  return test::with_network(problem, [](Network& network) {
    for (Block& block : network.blocks) {
      for (Parameter& parameter : block.parameters) {
        if (parameter.dims.size() > 1) parameter.trainable = Trainable::No;
      }
    }
  });
}

/// Logits of the micro-batch before stay where there was one: larger micro-batches that make the
/// step one of them may need less memory.
Problem with_previous_logits(Problem problem, double bytes) {
  Framework framework = *problem.framework;
  framework.constants.memory_previous_logit_bytes = bytes;
  problem.framework = std::make_shared<const Framework>(framework);
  return problem;
}

TEST_SUITE("differential") {
  TEST_CASE("the best plans are those that a look at every plan finds, however close they are") {
    int only_tight = 0;
    int tight_is_faster = 0;
    for (const double memory : {1.8, 3.5, 5.0, 8.0, 80.0}) {
      for (const std::int64_t experts : {-1, 0, 4}) {  // -1: none, matrices frozen
        const Problem problem = close_contest(memory, std::max<std::int64_t>(experts, 0));
        const PlanEvaluator evaluator(experts < 0 ? with_frozen_matrices(problem) : problem);
        const SearchSpace space = toy_space(evaluator.problem());
        const BruteForce all = look_at_everything(evaluator, space);
        const auto& ranked = all.fitting.empty() ? all.tight : all.fitting;
        const bool beaten =
            !all.fitting.empty() && !all.tight.empty() &&
            all.tight.front().estimate.step.total() < all.fitting.front().estimate.step.total();
        only_tight += all.fitting.empty() && !all.tight.empty() ? 1 : 0;
        tight_is_faster += beaten ? 1 : 0;
        // Whatever place is the last one in, its plan is the closest contender to be pruned.
        for (std::size_t top = 1; top <= 24; ++top) {
          SearchOptions o = options(Pruning::On, 1);
          o.top = top;
          const SearchResult result = search(evaluator, space, o);
          const auto best = best_families(evaluator, ranked, top);
          const std::size_t count = best.size();
          REQUIRE(result.ranked == best);
          REQUIRE(result.admitted ==
                  (all.fitting.empty() && count > 0 ? MemoryFit::Tight : MemoryFit::Fits));
          REQUIRE(result.tight.has_value() == beaten);
          if (beaten) REQUIRE(*result.tight == all.tight.front());
          o.fitting = true;
          REQUIRE(search(evaluator, space, o).ranked == best_families(evaluator, all.fitting, top));
        }
        SearchOptions any = options(Pruning::On, 1);
        any.top = 0;
        const SearchResult found = search(evaluator, space, any);
        REQUIRE(found.ranked.empty() == all.fitting.empty());
        if (!found.ranked.empty()) {
          const PlanCandidate& first = found.ranked.front();
          REQUIRE(evaluator.memory_fit(first.plan, first.estimate.memory.total()) ==
                  MemoryFit::Fits);
        }
      }
    }
    CHECK(only_tight > 0);
    CHECK(tight_is_faster > 0);
  }

  TEST_CASE("an exhaustive search prices every plan that fits, and no other") {
    for (const auto& [memory, previous] : {std::pair{2.5, 0.0},
                                           {3.0, 0.0},
                                           {3.5, 0.0},
                                           {4.0, 0.0},
                                           {6.0, 0.0},
                                           {8.0, 0.0},
                                           {4.0, 60.0},
                                           {6.0, 60.0}}) {
      const PlanEvaluator evaluator(with_previous_logits(close_contest(memory, 4), previous));
      const SearchSpace space = toy_space(evaluator.problem());
      const BruteForce all = look_at_everything(evaluator, space);
      const SearchResult result = search(evaluator, space, options(Pruning::Off, 1));
      CHECK(result.counts.evaluated ==
            static_cast<std::int64_t>(all.fitting.size() + all.tight.size()));
      CHECK(result.counts.pruned == 0);
    }
  }

  TEST_CASE("every plan that is priced is told once, simulated, for any number of threads") {
    const PlanEvaluator evaluator(test::toy_problem());
    const SearchSpace space = toy_space(evaluator.problem());
    const auto told = [&](Pruning pruning, int threads, std::int64_t& evaluated) {
      std::vector<PlanCandidate> plans;
      SearchOptions o = options(pruning, threads);
      o.priced = [&](std::span<const PlanCandidate> priced) {
        plans.insert(plans.end(), priced.begin(), priced.end());
      };
      evaluated = search(evaluator, space, o).counts.evaluated;
      return plans;
    };
    std::int64_t evaluated = 0;
    std::vector<PlanCandidate> all = told(Pruning::Off, 1, evaluated);
    CHECK(static_cast<std::int64_t>(all.size()) == evaluated);
    std::sort(all.begin(), all.end(), ranks_before);
    CHECK(all == look_at_everything(evaluator, space).fitting);
    const std::vector<PlanCandidate> some = told(Pruning::On, 1, evaluated);
    CHECK(static_cast<std::int64_t>(some.size()) == evaluated);
    CHECK(some.size() < all.size());
    CHECK(some == told(Pruning::On, 3, evaluated));
  }

  TEST_CASE("where nothing fits, the nearest misses are the nearest of all") {
    for (const auto& [memory, previous] : {std::pair{0.4, 0.0}, {1.0, 0.0}, {1.0, 60.0}}) {
      const PlanEvaluator evaluator(with_previous_logits(close_contest(memory, 4), previous));
      const SearchSpace space = toy_space(evaluator.problem());
      const BruteForce all = look_at_everything(evaluator, space);
      REQUIRE((all.fitting.empty() && all.tight.empty()));
      for (const std::size_t count : {1U, 5U, 40U}) {
        SearchOptions o = options(Pruning::On, 2);
        o.misses = count;
        const SearchResult result = search(evaluator, space, o);
        REQUIRE(result.misses.size() == count);
        for (std::size_t i = 0; i < count; ++i) {
          CHECK(result.misses[i].plan == all.misses[i].plan);
          CHECK(result.misses[i].estimate == all.misses[i].estimate);
        }
      }
    }
  }

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
      CHECK(pruned.tight == all.tight);
      CHECK(all.counts.pruned == 0);
      if (memory > 50.0) CHECK(pruned.counts.pruned > 0);
    }
  }

  TEST_CASE(
      "a front that nobody asks for changes neither the ranking nor what is recomputed less") {
    int recomputing = 0;
    for (const double memory : {3.0, 4.0, 6.0, 12.0, 80.0}) {
      CAPTURE(memory);
      test::ToyOptions toy;
      toy.memory_gib = memory;
      const PlanEvaluator evaluator(
          test::with_framework(test::toy_problem(toy), [](Framework& framework) {
            framework.partial_recompute = PartialRecompute::FirstLayers;
          }));
      const SearchSpace space = toy_space(evaluator.problem());
      SearchOptions asked = options(Pruning::On, 1);
      asked.recomputing = true;
      const SearchResult whole = search(evaluator, space, asked);
      CHECK(whole.ranked == search(evaluator, space, options(Pruning::On, 1)).ranked);
      SearchOptions every = asked;
      every.pruning = Pruning::Off;
      CHECK(search(evaluator, space, every).recomputing == whole.recomputing);
      for (const int threads : {1, 3}) {
        asked.front = false;
        asked.threads = threads;
        const SearchResult part = search(evaluator, space, asked);
        CHECK(part.ranked == whole.ranked);
        CHECK(part.tight == whole.tight);
        CHECK(part.recomputing == whole.recomputing);
        CHECK(part.front.empty());
        CHECK(part.counts.evaluated <= whole.counts.evaluated);
      }
      recomputing += static_cast<int>(whole.recomputing.size());
    }
    CHECK(recomputing > 0);
  }

  TEST_CASE("every plan of the space is counted once: evaluated, pruned or rejected") {
    const PlanEvaluator evaluator(test::toy_problem());
    const SearchSpace space = toy_space(evaluator.problem());
    const SearchCounts all = search(evaluator, space, options(Pruning::Off, 1)).counts;
    const SearchCounts some = search(evaluator, space, options(Pruning::On, 1)).counts;
    for (const SearchCounts& counts : {all, some}) {
      CHECK(counts.evaluated + counts.pruned + counts.rejected_total() == counts.space);
      CHECK(counts.classes > 0);
      CHECK(counts.classes < counts.evaluated);
    }
    CHECK(all.subtrees == 0);
    CHECK(some.subtrees > 0);
    CHECK(some.subtrees < some.pruned);
    CHECK(some.classes < all.classes);
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
      space.dimension(Degree::Schedule).values =
          order_values(framework, *evaluator.problem().network);
      space.dimension(Degree::MicroBatch).values = {1, 2};
      space.dimension(Degree::Recompute).values = {static_cast<int>(Recompute::None)};
      const SearchResult pruned = search(evaluator, space, options(Pruning::On, 1));
      const SearchResult all = search(evaluator, space, options(Pruning::Off, 1));
      CHECK(pruned.ranked == all.ranked);
      CHECK(pruned.front == all.front);
      CHECK(all.counts.evaluated > pruned.counts.evaluated);
    }
  }

  TEST_CASE("a plan whose step is too long to simulate is one plan that cannot be priced") {
    // Kernels that the host issues in half a second each: 2^20 sequences take one data rank longer
    // than the 106 days that 64 bits of picoseconds hold, 16 of them less.
    test::ToyOptions toy;
    toy.global_batch = 1 << 20;
    Problem problem = test::toy_problem(toy);
    Framework framework = *problem.framework;
    framework.constants.host_launch = Seconds(0.5);
    problem.framework = std::make_shared<const Framework>(framework);
    const PlanEvaluator evaluator(problem);
    const SearchSpace space = toy_space(problem);
    const SearchResult pruned = search(evaluator, space, options(Pruning::On, 1));
    const SearchResult all = search(evaluator, space, options(Pruning::Off, 1));
    CHECK_FALSE(pruned.ranked.empty());
    CHECK(pruned.ranked == all.ranked);
    const SearchCounts& c = all.counts;
    CHECK(c.rejected[static_cast<std::size_t>(Obstacle::BeyondSimulation)] > 0);
    CHECK(c.evaluated + c.pruned + c.rejected_total() == c.space);
    PlanDegrees slowest;
    slowest.tensor_out = 16;
    slowest.micro_batches = 1 << 20;
    const Evaluation evaluation = evaluator.evaluate(slowest);
    REQUIRE(std::holds_alternative<InfeasiblePlan>(evaluation));
    CHECK(std::get<InfeasiblePlan>(evaluation).reason.obstacle == Obstacle::BeyondSimulation);
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
      CHECK(many.tight == one.tight);
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
    for (const int threads : {1, 2}) {
      std::atomic<bool> stop{false};
      SearchOptions o = options(Pruning::On, threads);
      o.priced = [&](std::span<const PlanCandidate>) { stop = true; };  // after the first batch
      const StopToken token({.signal = &stop});
      const StopScope scope(&token);
      const SearchResult result = search(evaluator, toy_space(evaluator.problem()), o);
      CHECK(result.completeness == Completeness::Stopped);
      CHECK_FALSE(result.ranked.empty());
      const SearchCounts& c = result.counts;
      CHECK(c.evaluated + c.pruned + c.unvisited + c.rejected_total() == c.space);
      const SearchResult nothing = search(evaluator, toy_space(evaluator.problem()), o);
      CHECK(nothing.completeness == Completeness::Stopped);
      CHECK(nothing.ranked.empty());
      CHECK(nothing.counts.unvisited > 0);
    }
  }
}

}  // namespace
}  // namespace plansearch::search_test
