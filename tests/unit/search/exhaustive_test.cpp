// SPDX-License-Identifier: Apache-2.0
// Every space: what bounds leave out is in no answer, and threads change none.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "plansearch/search.hpp"
#include "plansearch/space.hpp"
#include "support/toy_class.hpp"
#include "support/toy_problem.hpp"

namespace plansearch {
namespace {

/// Small enough to price every plan of every space.
Problem random_problem(std::mt19937& random, OperatorSteps steps) {
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  test::ToyOptions options;
  options.layers = one_of({2, 3});
  options.gpus = one_of({2, 4});
  options.global_batch = one_of({4, 8});
  options.heads = one_of({4, 8});
  options.memory_gib = one_of({2, 3, 80});
  options.tied = one_of({0, 1}) == 1;
  return test::with_framework(test::toy_problem(options), [&](Framework& framework) {
    framework.operator_steps = steps;
    framework.own_layers = OwnLayers::Ends;
  });
}

SearchRequest random_request(std::mt19937& random) {
  SearchRequest request;
  request.pinned.pin(Degree::Context, 1);
  const auto maybe = [&](Degree degree, int values) {
    if (random() % 2 == 0) request.pinned.pin(degree, static_cast<int>(random()) % values);
  };
  request.pinned.pin(Degree::Recompute, static_cast<int>(random() % 2) * 2);
  request.pinned.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
  request.pinned.pin(Degree::Zero, 0);
  maybe(Degree::SequenceParallel, 1);
  return request;
}

using Prices = std::vector<std::pair<double, double>>;

/// Step times and memory, in their order.
Prices prices(const std::vector<PlanCandidate>& plans) {
  Prices result;
  for (const PlanCandidate& plan : plans) {
    result.emplace_back(plan.estimate.step.total().value(), plan.estimate.memory.total().value());
  }
  return result;
}

Prices prices(const std::vector<NearMiss>& misses) {
  Prices result;
  for (const NearMiss& miss : misses) {
    result.emplace_back(miss.limit.value(), miss.estimate.memory.total().value());
  }
  return result;
}

enum class Compared { Bounds, Threads };

void check_equal(const SearchResult& a, const SearchResult& b, std::string_view space,
                 Compared compared) {
  CHECK(a.admitted == b.admitted);
  REQUIRE(a.ranked.empty() == b.ranked.empty());
  // What ranks behind the first of `uneven` is what the proof of the first has met.
  const bool first_only = space == "uneven" && compared == Compared::Bounds && !a.ranked.empty();
  if (first_only) CHECK(prices(a.ranked).front().first == prices(b.ranked).front().first);
  if (!first_only) CHECK(prices(a.ranked) == prices(b.ranked));
  CHECK(prices(a.misses) == prices(b.misses));
  // Spaces of other plans than degrees leave slow ones out that need little memory.
  if (!is_staged(space)) CHECK(prices(a.front) == prices(b.front));
}

TEST_SUITE("unit") {
  TEST_CASE("every space: plans, misses and front are those of a search without bounds") {
    constexpr int kCases = 60;
    std::mt19937 random(20261124);
    for (const NamedSpace& space : named_spaces()) {
      int found = 0;
      for (int i = 0; i < kCases; ++i) {
        CAPTURE(std::string(space.name));
        CAPTURE(i);
        const bool rings = space.name == "temporal" && i % 4 == 0;
        const PlanEvaluator evaluator(
            random_problem(random, rings ? OperatorSteps::Rings : OperatorSteps::Squares));
        SearchRequest request = random_request(random);
        if (space.name == "operators") request.pinned.pin(Degree::Pipeline, 1);
        SearchOptions every;
        every.pruning = Pruning::Off;
        const auto pruned = search(evaluator, space.name, request, {});
        const auto all = search(evaluator, space.name, request, every);
        REQUIRE(pruned.index() == all.index());
        const auto* some = std::get_if<SearchResult>(&pruned);
        if (some == nullptr) continue;
        const auto& other = std::get<SearchResult>(all);
        check_equal(*some, other, space.name, Compared::Bounds);
        for (const int threads : {2, 3}) {
          SearchOptions spread;
          spread.threads = threads;
          const auto again = search(evaluator, space.name, request, spread);
          check_equal(*some, std::get<SearchResult>(again), space.name, Compared::Threads);
          CHECK(some->counts == std::get<SearchResult>(again).counts);
        }
        found += other.ranked.empty() ? 0 : 1;
      }
      CHECK(found > kCases / 4);
    }
  }
}

}  // namespace
}  // namespace plansearch
