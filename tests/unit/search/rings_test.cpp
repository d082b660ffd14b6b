// SPDX-License-Identifier: Apache-2.0
// Rings as a degree of a plan: searched, bounded and priced as other degrees are.
#include <doctest/doctest.h>

#include <optional>
#include <variant>

#include "evaluate/step/bound_ladder.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/plan_stages.hpp"
#include "plansearch/space.hpp"
#include "support/search_space.hpp"
#include "support/toy_class.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::rings_test {
namespace {

Problem rings_problem(double memory_gib = 80) {
  test::ToyOptions options;
  options.layers = 4;
  options.hidden = 4096;
  options.heads = 32;
  options.seq_len = 2048;
  options.gpus = 8;
  options.memory_gib = memory_gib;
  return test::with_framework(test::toy_problem(options), [](Framework& framework) {
    framework.operator_steps = OperatorSteps::Rings;
    OverlapRule& rule = framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)];
    rule = {};
    rule.steps = MessageWait::Use;
  });
}

/// The same degrees with every ring written out as a placement, as a plan file may.
std::optional<Estimate> over_rings_of(const PlanEvaluator& evaluator, const PlanDegrees& degrees) {
  const Problem& problem = evaluator.problem();
  const auto names =
      names_of(*ring_placements(*problem.network, degrees.tensor_out), *problem.network);
  const auto resolved = resolve_placements(names, *problem.network, degrees, *problem.framework);
  if (!std::holds_alternative<DistinguishedNetwork>(resolved)) return std::nullopt;
  auto plan = evaluator.expand(degrees);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  const auto placed = with_placements(std::get<ParallelPlan>(std::move(plan)),
                                      std::get<DistinguishedNetwork>(resolved).placements,
                                      *problem.network, *problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(placed));
  PlanDegrees rings = degrees;
  rings.temporal = Temporal::Ring;
  const auto by_degree = evaluator.expand(rings);
  REQUIRE(std::holds_alternative<ParallelPlan>(by_degree));
  CHECK(std::get<ParallelPlan>(by_degree) == std::get<ParallelPlan>(placed));
  const Evaluation priced = evaluator.evaluate(std::get<ParallelPlan>(placed));
  const auto* estimate = std::get_if<Estimate>(&priced);
  if (estimate == nullptr) return std::nullopt;
  return *estimate;
}

TEST_SUITE("unit") {
  TEST_CASE("rings: the best plan is the best of pricing every plan with them and without") {
    // With room for all plans, and for few: over rings less is kept.
    for (const double memory : {80.0, 8.0}) {
      const Problem problem = rings_problem(memory);
      const PlanEvaluator evaluator(problem);
      // One order: no variants that tie.
      PinnedDegrees one_order;
      one_order.pin(Degree::TensorOut, 8);
      one_order.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
      const SearchResult found = test::search_space("temporal", evaluator, {one_order, {}});
      PinnedDegrees in_space = one_order;
      in_space.pin(Degree::Temporal, static_cast<int>(Temporal::None));
      const auto space = make_space("framework", problem, in_space, {});
      REQUIRE(std::holds_alternative<SearchSpace>(space));
      const Bytes limit = evaluator.memory_up_to(MemoryFit::Fits);
      std::optional<Seconds> best;
      bool over_rings = false;
      int with_rings = 0;
      SearchOptions all;
      all.pruning = Pruning::Off;
      all.priced = [&](std::span<const PlanCandidate> priced) {
        for (const PlanCandidate& candidate : priced) {
          const PlanDegrees& degrees = candidate.plan;
          const auto look = [&](const std::optional<Estimate>& estimate, bool rings) {
            if (!estimate || estimate->memory.total() > limit) return;
            with_rings += rings ? 1 : 0;
            if (best && estimate->step.total() >= *best) return;
            best = estimate->step.total();
            over_rings = rings;
          };
          look(candidate.estimate, false);
          if (degrees.sequence_parallel == SequenceParallel::On) {
            look(over_rings_of(evaluator, degrees), true);
          }
        }
      };
      (void)search(PlanEvaluator(rings_problem(800.0)), std::get<SearchSpace>(space), all);
      REQUIRE(best.has_value());
      MESSAGE(memory << " GiB: " << with_rings << " plans over rings");
      CHECK(with_rings > 2);
      REQUIRE_FALSE(found.ranked.empty());
      const PlanCandidate& first = found.ranked.front();
      CHECK(first.estimate.step.total() == *best);
      const auto placements = whole_plan(evaluator, first).transforms.front().placements;
      CHECK(over_rings);
      CHECK((placements && placements->over_rings()) == over_rings);
    }
  }

  TEST_CASE("rings: the default space of a framework that runs them has them, that of others not") {
    const auto steps_in = [](std::string_view name, const Problem& problem) {
      const auto space = make_space(name, problem, {}, {});
      REQUIRE(std::holds_alternative<SearchSpace>(space));
      return std::get<SearchSpace>(space).dimension(Degree::Temporal).values;
    };
    const int none = static_cast<int>(Temporal::None);
    const std::vector<int> both{none, static_cast<int>(Temporal::Ring)};
    CHECK(steps_in("framework", rings_problem()) == both);
    CHECK(steps_in("4d", rings_problem()) == both);
    CHECK(steps_in("data", rings_problem()) == std::vector<int>{none});
    CHECK(steps_in("framework", test::toy_problem()) == std::vector<int>{none});
  }

  TEST_CASE("rings: bounds hold, and a known profile gives the price of the plan") {
    const PlanEvaluator evaluator(rings_problem());
    const auto workspace = PlanEvaluator::make_workspace();
    int plans = 0;
    for (const int tensor : {2, 4, 8}) {
      for (const int pipeline : {1, 2}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
          PlanDegrees plan;
          plan.tensor_out = tensor;
          plan.pipeline = pipeline;
          plan.data = 8 / tensor / pipeline;
          if (plan.data == 0) continue;
          plan.micro_batches = static_cast<int>(evaluator.problem().global_batch) / plan.data;
          plan.sequence_parallel = SequenceParallel::On;
          plan.temporal = Temporal::Ring;
          plan.recompute = recompute;
          CAPTURE(tensor);
          CAPTURE(pipeline);
          const auto whole = evaluator.expand(plan);
          REQUIRE(std::holds_alternative<ParallelPlan>(whole));
          const Evaluation priced = evaluator.evaluate(std::get<ParallelPlan>(whole));
          REQUIRE(std::holds_alternative<Estimate>(priced));
          const auto& price = std::get<Estimate>(priced);
          const auto profile = evaluator.profile(plan);
          CHECK(evaluator.simulate(*profile, plan, *workspace) == price);
          BoundLadder ladder(evaluator, *workspace);
          const PlanBound bound = ladder.bound(*profile, plan);
          CHECK(bound.step_time <= price.step.total());
          CHECK(bound.memory <= price.memory.total());
          CHECK(ladder.bound(Rung::EndStages, plan).memory == bound.memory);
          CHECK(degree_bound(evaluator, plan).step_time <= bound.step_time);
          ++plans;
        }
      }
    }
    CHECK(plans == 10);
  }

  TEST_CASE("rings: what cannot run over them is refused") {
    const PlanEvaluator evaluator(rings_problem());
    PlanDegrees plan;
    plan.tensor_out = 8;
    plan.micro_batches = static_cast<int>(evaluator.problem().global_batch);
    plan.sequence_parallel = SequenceParallel::On;
    plan.temporal = Temporal::Ring;
    CHECK_FALSE(evaluator.legality(plan).has_value());
    const auto refused = [&](const PlanDegrees& bad) {
      const auto found = evaluator.legality(bad);
      REQUIRE(found.has_value());
      CHECK(evaluator.obstacle(bad) == found->obstacle);
      return found->detail;
    };
    PlanDegrees bad = plan;
    bad.sequence_parallel = SequenceParallel::Off;
    CHECK(refused(bad).find("--sp 1") != std::string::npos);
    bad = plan;
    bad.tensor_out = 1;
    bad.data = 8;
    bad.micro_batches /= 8;
    CHECK(refused(bad).find("a ring of one device") != std::string::npos);
    bad = plan;
    bad.tensor_out = 4;
    bad.tensor_in = 2;
    CHECK(refused(bad).find("not over a grid") != std::string::npos);
    const PlanEvaluator other(test::with_framework(rings_problem(), [](Framework& framework) {
      framework.operator_steps = OperatorSteps::None;
    }));
    CHECK(other.legality(plan)->detail.find("operator_steps") != std::string::npos);
    // The degrees and the placements of a transform say the same.
    auto whole = evaluator.expand(plan);
    auto& made = std::get<ParallelPlan>(whole);
    made.transforms.front().placements = nullptr;
    CHECK(evaluator.legality(made)->detail.find("say rings") != std::string::npos);
  }

  TEST_CASE("space temporal: of a framework that runs rings it looks at rings") {
    const Problem problem = rings_problem();
    const PlanEvaluator evaluator(problem);
    PinnedDegrees pinned;
    pinned.pin(Degree::TensorOut, 4);
    const SearchResult found = test::search_space("temporal", evaluator, {pinned, {}});
    bool rings = false;
    for (const PlanCandidate& candidate : found.ranked) {
      const auto placements = whole_plan(evaluator, candidate).transforms.front().placements;
      rings = rings || (placements && placements->over_rings());
      const Evaluation again = evaluator.evaluate(whole_plan(evaluator, candidate));
      REQUIRE(std::holds_alternative<Estimate>(again));
      CHECK(std::get<Estimate>(again) == candidate.estimate);
    }
    CHECK(rings);
  }
}

}  // namespace
}  // namespace plansearch::rings_test
