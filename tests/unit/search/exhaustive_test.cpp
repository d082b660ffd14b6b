// SPDX-License-Identifier: Apache-2.0
// Every space: what bounds leave out is never the best plan.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <variant>

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

TEST_SUITE("unit") {
  TEST_CASE("every space: the best plan is that of a search without bounds") {
    constexpr int kCases = 40;
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
        REQUIRE(some->ranked.empty() == other.ranked.empty());
        if (other.ranked.empty()) continue;
        ++found;
        CHECK(some->admitted == other.admitted);
        CHECK(some->ranked.front().estimate.step.total() ==
              other.ranked.front().estimate.step.total());
      }
      CHECK(found > kCases / 4);
    }
  }
}

}  // namespace
}  // namespace plansearch
