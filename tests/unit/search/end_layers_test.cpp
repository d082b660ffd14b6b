// SPDX-License-Identifier: Apache-2.0
#include "search/strategies/strategy.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <numeric>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_stages.hpp"
#include "search/strategies/uneven/stage_configs.hpp"
#include "support/search_space.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::end_layers_test {

namespace {

Problem problem_with_ends(double memory_gib = 80) {
  test::ToyOptions options;
  options.layers = 11;
  options.gpus = 8;
  options.global_batch = 16;
  options.memory_gib = memory_gib;
  Problem problem = test::toy_problem(options);
  Framework framework = *problem.framework;
  framework.own_layers = OwnLayers::Ends;
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  return problem;
}

SearchRequest four_stages() {
  SearchRequest request;
  request.pinned.pin(Degree::Pipeline, 4);
  request.pinned.pin(Degree::Zero, 0);
  request.pinned.pin(Degree::Recompute, 0);
  request.pinned.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
  return request;
}

/// The step of a plan, where it runs and fits.
std::optional<Seconds> step_of(const PlanEvaluator& evaluator, const PlanDegrees& degrees,
                               const std::vector<std::int64_t>& layers) {
  const Problem& problem = evaluator.problem();
  const auto runs = std::get<StageRuns>(place_layers(*problem.network, layers));
  std::vector<StageDescription> stages(layers.size());
  for (std::size_t s = 0; s < layers.size(); ++s) {
    stages[s].degrees = degrees;
    stages[s].chunks = {runs[s]};
  }
  const auto plan = plan_of_stages(stages, {degrees.schedule, degrees.micro_batches},
                                   problem.global_batch, *problem.framework, *problem.network);
  if (!std::holds_alternative<ParallelPlan>(plan)) return std::nullopt;
  const Evaluation evaluation = evaluator.evaluate(std::get<ParallelPlan>(plan));
  const auto* estimate = std::get_if<Estimate>(&evaluation);
  const Bytes limit = evaluator.memory_up_to(MemoryFit::Fits);
  if (estimate == nullptr || estimate->memory.total() > limit) return std::nullopt;
  return estimate->step.total();
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the best layers of the ends are those of pricing every plan") {
    // With room for all plans, and for few.
    int with_room = 0;
    for (const double memory : {80.0, 2.2}) {
      const PlanEvaluator evaluator(problem_with_ends(memory));
      const SearchResult found =
          run_search({end_layers_part(evaluator.problem(), four_stages())}, evaluator, {}, nullptr);
      std::optional<Seconds> best;
      int plans = 0;
      int fitting = 0;
      for (const auto& [order, forms] : stage_degrees(evaluator.problem(), four_stages(), {2})) {
        for (const PlanDegrees& form : forms) {
          for (std::int64_t first = 1; first <= 8; ++first) {
            for (std::int64_t last = 1; first + last <= 9; ++last) {
              if ((11 - first - last) % 2 != 0) continue;
              const std::int64_t between = (11 - first - last) / 2;
              const auto time = step_of(evaluator, form, {first, between, between, last});
              ++plans;
              fitting += time ? 1 : 0;
              if (time && (!best || *time < *best)) best = time;
            }
          }
        }
      }
      REQUIRE(best);
      CHECK(plans > 100);
      REQUIRE_FALSE(found.ranked.empty());
      CHECK(found.ranked.front().estimate.step.total() == *best);
      CHECK(found.counts.space == plans);
      CHECK(found.counts.simulated < plans);
      // Eleven layers do not divide by four: only plans like these run at all.
      const auto stages = stages_of(*found.ranked.front().written, *evaluator.problem().framework);
      CHECK(stages.size() == 4);
      CHECK(found.admitted == MemoryFit::Fits);
      CHECK(fitting > 0);
      if (memory < 80.0) CHECK(fitting < with_room);
      with_room = fitting;
    }
  }

  TEST_CASE("a framework without such options says so") {
    CHECK_THROWS_AS((void)end_layers_part(test::toy_problem(), {}), InputError);
  }
}

}  // namespace plansearch::end_layers_test
