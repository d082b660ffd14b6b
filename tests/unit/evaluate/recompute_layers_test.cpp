// SPDX-License-Identifier: Apache-2.0
// Recomputation of the first N layers of every chunk against recomputation of none and of all: a
// layer that is run again takes its forward time once more and keeps its input alone.
#include <doctest/doctest.h>

#include "evaluate/step/bound_ladder.hpp"
#include "plan/legality/legality.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "support/schedules.hpp"
#include "support/toy_class.hpp"

namespace plansearch::recompute_layers_test {
namespace {

/// Two stages of four layers, or four chunks of two; the head has a table of its own.
Problem problem_of(const PlanDegrees& plan) {
  test::ToyOptions options;
  options.global_batch = plan.global_batch();
  options.gpus = plan.devices();
  options.tied = false;
  return test::with_framework(test::toy_problem(options), [](Framework& framework) {
    framework.partial_recompute = PartialRecompute::FirstLayers;
  });
}

PlanDegrees plan_of(int chunks) {
  PlanDegrees plan;
  plan.tensor_out = 2;
  plan.pipeline = 2;
  plan.chunks = chunks;
  plan.micro_batches = 4;
  plan.schedule = chunks > 1 ? test::kInterleaved : kDefaultSchedule;
  return plan;
}

struct Priced {
  Priced(const PlanEvaluator& evaluator, PlanDegrees plan, Recompute level, int layers) {
    plan.recompute = level;
    plan.recompute_layers = layers;
    const auto workspace = PlanEvaluator::make_workspace();
    const auto profile = evaluator.profile(plan);
    estimate = evaluator.simulate(*profile, plan, *workspace);
    PlanDetails details = plan_details(evaluator, plan, *workspace);
    lines = std::move(details.communication);
    stages = std::move(details.stages);
    report = rate_plan(evaluator, plan, estimate);
    bound = BoundLadder(evaluator, *workspace).bound(Rung::EndStages, plan).memory;
    whole = std::get<Estimate>(evaluator.evaluate(plan));
  }
  [[nodiscard]] double messages() const {
    double count = 0.0;
    for (const PricedCommunication& line : lines) {
      if (purpose_of(line.communication) == Purpose::Tensor) count += line.count;
    }
    return count;
  }
  [[nodiscard]] double hardware_flops() const {
    return report.hardware_rate_per_gpu.value() * estimate.step.total().value();
  }
  Estimate estimate;
  Estimate whole;
  std::vector<PricedCommunication> lines;
  std::vector<StageReport> stages;
  PlanReport report;
  Bytes bound;
};

/// Of `some` on the way from `none` to `all`.
double share(double none, double some, double all) {
  return (some - none) / (all - none);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("first layers: time, messages and memory grow layer by layer from none to all") {
    for (const int chunks : {1, 2}) {
      const PlanDegrees plan = plan_of(chunks);
      const PlanEvaluator evaluator(problem_of(plan));
      const Priced none(evaluator, plan, Recompute::None, 0);
      const Priced all(evaluator, plan, Recompute::Full, 0);
      const int layers = 4 / chunks;
      for (int n = 1; n <= layers; ++n) {
        INFO("chunks " << chunks << " layers " << n);
        const Priced some(evaluator, plan, Recompute::Full, n);
        const auto want = doctest::Approx(static_cast<double>(n) / layers).epsilon(1e-9);
        CHECK(share(0.0, some.estimate.step.recompute.value(),
                    all.estimate.step.recompute.value()) == want);
        CHECK(some.estimate.step.compute.value() ==
              doctest::Approx(none.estimate.step.compute.value()).epsilon(1e-12));
        CHECK(share(none.messages(), some.messages(), all.messages()) == want);
        for (std::size_t p = 0; p < 2; ++p) {
          CHECK(share(none.stages[p].backward.value(), some.stages[p].backward.value(),
                      all.stages[p].backward.value()) == want);
          CHECK(some.stages[p].forward == none.stages[p].forward);
        }
        CHECK(share(none.estimate.memory.activations.value(),
                    some.estimate.memory.activations.value(),
                    all.estimate.memory.activations.value()) == want);
        CHECK(share(none.hardware_flops(), some.hardware_flops(), all.hardware_flops()) == want);
        CHECK(some.bound <= some.estimate.memory.total());
        CHECK(some.whole == some.estimate);
      }
      const Priced most(evaluator, plan, Recompute::Full, layers);
      CHECK(most.estimate == all.estimate);
    }
  }

  TEST_CASE("first layers: of full recomputation, where the framework can, as many as there are") {
    PlanDegrees plan = plan_of(1);
    plan.recompute = Recompute::Full;
    const Problem problem = problem_of(plan);
    const auto refused = [&](const Framework& framework) {
      const auto bad = check_legality(plan, *problem.network, framework, problem.gpus);
      return bad ? bad->detail : std::string();
    };
    plan.recompute_layers = 4;
    CHECK(refused(*problem.framework).empty());
    Framework all_or_none = *problem.framework;
    all_or_none.partial_recompute = PartialRecompute::None;
    CHECK(refused(all_or_none).ends_with("recomputes all layers or none"));
    plan.recompute_layers = 5;
    CHECK(refused(*problem.framework) == "recompute_layers 5: a chunk holds at most 4 layers");
    plan.recompute_layers = 1;
    plan.recompute = Recompute::Selective;
    CHECK(refused(*problem.framework) ==
          "recompute_layers 1 is of full recomputation, not of selective");
  }
}

}  // namespace plansearch::recompute_layers_test
