// SPDX-License-Identifier: Apache-2.0
// A stage priced by itself costs what it costs in a whole plan.
#include "evaluate/step/stage_price.hpp"

#include <doctest/doctest.h>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/plan_stages.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::stage_price_test {

namespace {

StageDescription stage_of(int data, int tensor, Recompute recompute) {
  StageDescription stage;
  stage.degrees.data = data;
  stage.degrees.tensor_out = tensor;
  stage.degrees.recompute = recompute;
  return stage;
}

/// Three stages of 8, 4 and 4 devices with 3, 1 and 4 layers.
ParallelPlan uneven_plan(const Problem& problem, std::vector<StageDescription>& stages) {
  stages = {stage_of(4, 2, Recompute::None), stage_of(1, 4, Recompute::Full),
            stage_of(4, 1, Recompute::None)};
  const auto runs = std::get<StageRuns>(place_layers(*problem.network, {3, 1, 4}));
  for (std::size_t s = 0; s < stages.size(); ++s) stages[s].chunks = {runs[s]};
  auto plan = plan_of_stages(stages, {kDefaultSchedule, 4}, problem.global_batch,
                             *problem.framework, *problem.network);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  return std::get<ParallelPlan>(std::move(plan));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("times and memory of a stage are those it has in a plan") {
    test::ToyOptions options;
    options.tied = false;  // what stages share is no stage's own
    const Problem problem = test::toy_problem(options);
    const PlanEvaluator evaluator(problem);
    std::vector<StageDescription> stages;
    const ParallelPlan plan = uneven_plan(problem, stages);
    REQUIRE_FALSE(evaluator.legality(plan));
    const std::vector<StageReport> reports = plan_details(evaluator, plan).stages;
    const StagePricer pricer(evaluator.views());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const StageConfig form = pricer.form(plan.transform_at(static_cast<int>(s)).degrees);
      const PlacedRuns runs{stages[s].chunks.front()};
      const StagePrice price = pricer.price(form, runs);
      CAPTURE(s);
      CHECK(price.forward == reports[s].forward);
      CHECK(price.backward == reports[s].backward);
      CHECK(price.reduction == reports[s].reduction);
      CHECK(price.after >= reports[s].optimizer);
      // 1F1B: as many micro-batches in flight as stages from here on.
      const double in_flight = static_cast<double>(stages.size() - s);
      CHECK((price.fixed + price.activations * in_flight).value() ==
            doctest::Approx(reports[s].memory.value()).epsilon(1e-12));
      if (s + 1 == stages.size()) continue;
      const StageConfig next = pricer.form(plan.transform_at(static_cast<int>(s) + 1).degrees);
      const std::array first{reports[s].first_rank, reports[s + 1].first_rank};
      CHECK(pricer.transfer(form, next, runs, first).activation == reports[s].edge_time);
    }
  }
}

}  // namespace plansearch::stage_price_test
