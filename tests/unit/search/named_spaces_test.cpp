// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "plan/legality/legality.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "search/walk/legal_walk.hpp"
#include "support/spaces.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::named_spaces_test {
namespace {

using test::all_plans;
using test::count_plans;

Problem small_question(std::int64_t experts = 0) {
  test::ToyOptions toy;
  toy.layers = 6;
  toy.heads = 12;
  toy.hidden = 768;
  toy.gpus = 12;
  toy.global_batch = 12;
  toy.experts = experts;
  return test::toy_problem(toy);
}

std::set<PlanDegrees> legal_plans(const Problem& problem, const SearchSpace& space) {
  std::set<PlanDegrees> legal;
  for (const PlanDegrees& plan : all_plans(space)) {
    if (!find_obstacle(plan, *problem.network, *problem.framework, problem.gpus)) {
      legal.insert(plan);
    }
  }
  return legal;
}

/// All degrees free, grids and shard groups included.
SearchSpace everything(const Problem& problem) {
  SearchSpace space = all_degrees(problem);
  space.dimension(Degree::TensorIn).values = {1, 2};
  space.dimension(Degree::TensorDepth).values = {1, 2};
  space.dimension(Degree::ExpertTensor).values = {1, 2};
  space.dimension(Degree::ShardGroup).values = {0, 2};
  return space;
}

TEST_SUITE("unit") {
  TEST_CASE("values nobody can use are left out, and no legal plan with them") {
    for (const std::int64_t experts : {0, 4}) {
      const Problem problem = small_question(experts);
      const SearchSpace all = everything(problem);
      SearchSpace divides = all;
      keep_what_divides(problem, divides);
      SearchSpace runs = all;
      keep_what_runs(problem, runs);
      CHECK(legal_plans(problem, divides) == legal_plans(problem, all));
      CHECK(legal_plans(problem, runs) == legal_plans(problem, all));
      CHECK(count_plans(runs) <= count_plans(divides));
      CHECK(count_plans(divides) < count_plans(all));
    }
  }

  TEST_CASE("heads that a tensor degree does not divide are no part of the space") {
    test::ToyOptions toy;
    toy.heads = 6;
    toy.gpus = 16;
    const SearchSpace space =
        std::get<SearchSpace>(make_space("megatron", test::toy_problem(toy), {}));
    CHECK(space.dimension(Degree::TensorOut).values == std::vector<int>{1, 2});
  }

  TEST_CASE("any degree can be pinned") {
    const Problem problem = small_question();
    const std::array<PinnedDegree, 8> pins{{{Degree::TensorIn, 2},
                                            {Degree::TensorDepth, 2},
                                            {Degree::TensorOut, 3},
                                            {Degree::Data, 2},
                                            {Degree::Pipeline, 6},
                                            {Degree::Chunks, 2},
                                            {Degree::MicroBatch, 2},
                                            {Degree::Context, 2}}};
    for (const PinnedDegree& p : pins) {
      const auto plans = all_plans(std::get<SearchSpace>(make_space("megatron", problem, {p})));
      CHECK_FALSE(plans.empty());
      CHECK(std::all_of(plans.begin(), plans.end(), [&](const PlanDegrees& plan) {
        return degree_value(plan, p.degree) == p.value;
      }));
    }
    // A shard group applies where there is something to shard.
    bool grouped = false;
    for (const PlanDegrees& plan : all_plans(
             std::get<SearchSpace>(make_space("megatron", problem, {{Degree::ShardGroup, 2}})))) {
      const bool shards = plan.data > 1 && plan.zero != ZeroStage::None;
      CHECK(plan.shard_group == (shards ? 2 : 0));
      grouped = grouped || shards;
    }
    CHECK(grouped);
  }

  TEST_CASE("a limited space is the whole space without what the limits refuse") {
    struct Case {
      Degree degree;
      std::vector<int> listed;
      int low = 0, high = 1 << 20;
    };
    const std::vector<std::vector<Case>> questions{
        {{Degree::TensorOut, {1, 2, 3}}},
        {{Degree::Pipeline, {}, 2, 4}},
        {{Degree::Pipeline, {}, 2, 6}, {Degree::Chunks, {1, 3}}, {Degree::MicroBatch, {}, 0, 2}},
        {{Degree::Zero, {1, 2}}, {Degree::Data, {}, 2}},
        {{Degree::SequenceParallel, {1}}, {Degree::ContextKind, {1}}},
        {{Degree::Recompute, {0, 2}}, {Degree::Schedule, {0, 1}}},
        {{Degree::Expert, {2, 4}}}};
    for (const std::int64_t experts : {0, 4}) {
      const Problem problem = small_question(experts);
      const SearchSpace whole = std::get<SearchSpace>(make_space("megatron", problem, {}));
      const std::vector<PlanDegrees> plans = all_plans(whole);
      for (const std::vector<Case>& question : questions) {
        DegreeLimits limits;
        for (const Case& c : question) {
          if (!c.listed.empty()) limits.allow(c.degree, c.listed);
          if (c.listed.empty()) limits.at_least(c.degree, c.low);
          if (c.listed.empty()) limits.at_most(c.degree, c.high);
        }
        CAPTURE(to_text(limits));
        std::set<PlanDegrees> wanted;
        for (const PlanDegrees& plan : plans) {
          const bool keeps = std::all_of(question.begin(), question.end(), [&](const Case& c) {
            return !whole.dimension(c.degree).applies(plan) ||
                   limits.admits(c.degree, degree_value(plan, c.degree));
          });
          if (keeps) wanted.insert(plan);
        }
        const auto limited = make_space("megatron", problem, {}, limits);
        if (wanted.empty()) {
          // Refused at once, or looked at to say what is wrong with each plan.
          const auto* refused = std::get_if<SearchSpace>(&limited);
          CHECK((refused == nullptr || legal_plans(problem, *refused).empty()));
          continue;
        }
        REQUIRE(std::holds_alternative<SearchSpace>(limited));
        const auto found = all_plans(std::get<SearchSpace>(limited));
        CHECK(std::set<PlanDegrees>(found.begin(), found.end()) == wanted);
        CHECK(found.size() == wanted.size());
      }
    }
  }

  TEST_CASE("degrees that spaces leave at one are looked at where they are listed or bounded") {
    const Problem problem = small_question();
    const auto values = [&](Degree degree, auto set) {
      DegreeLimits limits;
      set(limits);
      return std::get<SearchSpace>(make_space("megatron", problem, {}, limits))
          .dimension(degree)
          .values;
    };
    const auto list = [](DegreeLimits& l) { l.allow(Degree::TensorIn, {1, 2}); };
    CHECK(values(Degree::TensorIn, list) == std::vector<int>{1, 2});
    // Divisors of 12 GPUs.
    const auto bound = [](DegreeLimits& l) { l.at_most(Degree::TensorDepth, 4); };
    CHECK(values(Degree::TensorDepth, bound) == std::vector<int>{1, 2, 3, 4});
    const auto group = [](DegreeLimits& l) { l.at_least(Degree::ShardGroup, 2); };
    CHECK(values(Degree::ShardGroup, group) == std::vector<int>{2, 3, 4, 6, 12});
  }

  TEST_CASE("limits that leave no plan are refused in their words") {
    DegreeLimits limits;
    limits.at_least(Degree::Pipeline, 7);
    const auto none = make_space("megatron", small_question(), {{Degree::Data, 1}}, limits);
    REQUIRE(std::holds_alternative<Infeasible>(none));
    CHECK(std::get<Infeasible>(none).detail.ends_with("has dp 1, pp at least 7"));
  }

  TEST_CASE("pinned degrees that leave no plan are refused, and so are unknown names") {
    const Problem problem = small_question();
    const auto none = make_space("megatron", problem, {{Degree::Data, 5}});
    REQUIRE(std::holds_alternative<Infeasible>(none));
    CHECK(std::get<Infeasible>(none).detail.ends_with("has dp 5"));
    CHECK_THROWS_AS((void)make_space("everything", problem, {}), InputError);
  }
}

TEST_SUITE("differential") {
  TEST_CASE("conditions asked level by level say what the check of a whole plan says") {
    for (const std::int64_t experts : {0, 4}) {
      const Problem problem = small_question(experts);
      const PlanEvaluator evaluator(problem);
      const LegalWalk walk(evaluator, everything(problem));
      std::set<PlanDegrees> legal;
      std::int64_t rejected = 0;
      SpaceCounter counter(walk.space());
      walk.visit(
          0, walk.space().depth(), PlanDegrees{},
          [&](const PlanDegrees& plan) { legal.insert(plan); },
          [&](Obstacle, std::size_t level, const PlanDegrees& plan) {
            rejected += counter.below(level, plan);
          });
      CHECK(legal == legal_plans(problem, everything(problem)));
      CHECK(static_cast<std::int64_t>(legal.size()) + rejected == counter.all());
    }
  }
}

}  // namespace
}  // namespace plansearch::named_spaces_test
