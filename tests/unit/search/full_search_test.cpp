// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "plansearch/plan_stages.hpp"
#include "plansearch/space.hpp"
#include "plansearch/stop_token.hpp"
#include "support/search_space.hpp"
#include "support/toy_class.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::full_search_test {
namespace {

Problem problem_of(OperatorSteps steps, OwnLayers layers) {
  test::ToyOptions options;
  options.layers = 6;
  options.gpus = 8;
  return test::with_framework(test::toy_problem(options), [&](Framework& framework) {
    framework.operator_steps = steps;
    framework.own_layers = layers;
  });
}

/// One order, so that no variants tie.
SearchRequest one_order() {
  SearchRequest request;
  request.pinned.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
  return request;
}

TEST_SUITE("unit") {
  TEST_CASE("space full: its best is the best of its parts, each asked alone") {
    for (const OperatorSteps steps :
         {OperatorSteps::None, OperatorSteps::Squares, OperatorSteps::Rings}) {
      for (const OwnLayers layers : {OwnLayers::None, OwnLayers::Ends}) {
        const Problem problem = problem_of(steps, layers);
        const PlanEvaluator evaluator(problem);
        const SearchRequest request = one_order();
        const auto space = make_space("4d", problem, request.pinned, {});
        REQUIRE(std::holds_alternative<SearchSpace>(space));
        SearchOptions one;
        one.top = 1;
        const SearchResult degrees = search(evaluator, std::get<SearchSpace>(space), one);
        REQUIRE_FALSE(degrees.ranked.empty());
        Seconds best = degrees.ranked.front().estimate.step.total();
        std::int64_t plans = degrees.counts.space;
        const auto beside = [&](const SearchResult& part) {
          plans += part.counts.space;
          if (!part.ranked.empty()) {
            best = std::min(best, part.ranked.front().estimate.step.total());
          }
        };
        if (layers == OwnLayers::Ends) beside(test::search_space("layers", evaluator, request));
        SearchRequest deep = request;
        deep.limits.allow(Degree::Pipeline, {1, 2, 4, 8});
        if (steps != OperatorSteps::None) beside(test::search_space("temporal", evaluator, deep));
        const SearchResult found = test::search_space("full", evaluator, request);
        REQUIRE_FALSE(found.ranked.empty());
        CHECK(found.completeness == Completeness::Optimal);
        CHECK(found.ranked.front().estimate.step.total() == best);
        CHECK(found.counts.space <= plans);
        CHECK(std::is_sorted(found.ranked.begin(), found.ranked.end(), ranks_before));
        const bool one_part = steps != OperatorSteps::Squares && layers == OwnLayers::None;
        CHECK(found.claim.empty() == one_part);
      }
    }
  }

  TEST_CASE("space full: no plan is listed twice, and every one costs what it costs alone") {
    const Problem problem = problem_of(OperatorSteps::Squares, OwnLayers::Ends);
    const PlanEvaluator evaluator(problem);
    const SearchResult found = test::search_space("full", evaluator);
    for (std::size_t i = 0; i < found.ranked.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        CHECK_FALSE(whole_plan(evaluator, found.ranked[i]) ==
                    whole_plan(evaluator, found.ranked[j]));
      }
      const Evaluation again = evaluator.evaluate(whole_plan(evaluator, found.ranked[i]));
      REQUIRE(std::holds_alternative<Estimate>(again));
      CHECK(std::get<Estimate>(again) == found.ranked[i].estimate);
    }
  }

  TEST_CASE("space full: what is pinned holds for all of its parts") {
    const Problem problem = problem_of(OperatorSteps::Squares, OwnLayers::Ends);
    const PlanEvaluator evaluator(problem);
    SearchRequest request;
    request.pinned.pin(Degree::TensorOut, 4);
    request.pinned.pin(Degree::Pipeline, 2);
    const SearchResult found = test::search_space("full", evaluator, request);
    REQUIRE_FALSE(found.ranked.empty());
    for (const PlanCandidate& candidate : found.ranked) {
      CHECK(whole_plan(evaluator, candidate).transforms.front().degrees.tensor_out == 4);
      CHECK(stages_of(whole_plan(evaluator, candidate), *problem.framework).size() == 2);
    }
    // A tensor group that no sequence cuts: degrees and layers only.
    request.pinned.pin(Degree::TensorOut, 1);
    CHECK_FALSE(test::search_space("full", evaluator, request).ranked.empty());
  }

  TEST_CASE("space full: a search that was stopped says nothing of plan 1") {
    const Problem problem = problem_of(OperatorSteps::Squares, OwnLayers::Ends);
    const PlanEvaluator evaluator(problem);
    const StopToken none({.time = std::chrono::seconds(0)});
    const StopScope scope(&none);
    const SearchResult found = test::search_space("full", evaluator, {});
    CHECK(found.completeness == Completeness::Stopped);
    CHECK(found.claim.empty());
  }
}

}  // namespace
}  // namespace plansearch::full_search_test
