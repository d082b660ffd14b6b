// SPDX-License-Identifier: Apache-2.0
// What splitting the backward buys, priced: the bubble of 1F1B is (p - 1)(tF + tB + tW), that of
// ZB-H1 (p - 1)(tF + tB - tW), with tB the input gradient. Longer weight gradients do not all fit
// into the bubble: then both are those of the task graph of equal pieces.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "evaluate/step/bound_ladder.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "schedule/program/timeline.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"

namespace plansearch::zero_bubble_test {
namespace {

/// Nothing but layers, so that all stages are equal; kernels so long that no device is waited for.
Problem layers_only(const PlanDegrees& plan, std::int64_t sequence) {
  test::ToyOptions options;
  options.global_batch = plan.global_batch();
  options.gpus = plan.devices();
  options.tied = false;
  options.hidden = 4096;
  options.heads = 32;
  options.seq_len = sequence;
  return test::with_network(test::toy_problem(options), [](Network& network) {
    std::erase_if(network.order, [&](const BlockRun& run) {
      return network.blocks[run.block].kind != BlockKind::Decoder;
    });
  });
}

struct Priced {
  Ticks bubble = 0;
  Ticks step = 0;
  Ticks overlap = 0;       ///< with the next step
  Ticks graph_bubble = 0;  ///< of the task graph of equal pieces
  Ticks forward = 0, input = 0, weight = 0;
};

Priced price(PlanDegrees plan, std::int64_t sequence, const char* schedule,
             OptimizerStart start = OptimizerStart::Together) {
  plan.schedule = *find_schedule(schedule);
  const PlanEvaluator evaluator(
      test::with_framework(layers_only(plan, sequence), [&](Framework& framework) {
        framework.optimizer_start = start;
        framework.schedules = schedule_names();
      }));
  const auto workspace = PlanEvaluator::make_workspace();
  const auto profile = evaluator.profile(plan);
  const Estimate estimate = evaluator.simulate(*profile, plan, *workspace);
  const StageReport stage = plan_details(evaluator, plan, *workspace).stages.front();
  Priced priced;
  priced.bubble = to_ticks(estimate.step.bubble);
  priced.step = to_ticks(estimate.step.total());
  priced.overlap = to_ticks(estimate.next_step_overlap);
  const Estimate quick = evaluator.estimate(*profile, plan, *workspace);
  const PlanBound bound = BoundLadder(evaluator, *workspace).bound(*profile, plan);
  CHECK(bound.step_time <= estimate.step.total() * (1.0 + 1e-9));
  CHECK(bound.step_time <= quick.step.total() * (1.0 + 1e-9));
  priced.forward = to_ticks(stage.forward);
  priced.input = to_ticks(stage.backward - stage.weight_gradient);
  priced.weight = to_ticks(stage.weight_gradient);
  const PipelineShape shape{plan.schedule, plan.pipeline, plan.micro_batches};
  const auto times = uniform_durations(shape, {priced.forward, priced.input, 0, priced.weight});
  const auto timeline = simulate_order(std::get<ComputeOrder>(make_order(shape)), times.view());
  priced.graph_bubble = std::get<Timeline>(timeline).makespan() -
                        plan.micro_batches * (priced.forward + priced.input + priced.weight);
  return priced;
}

PlanDegrees pipeline_of(int stages, int micro_batches) {
  PlanDegrees plan;
  plan.pipeline = stages;
  plan.micro_batches = micro_batches;
  return plan;
}

TEST_SUITE("evaluate") {
  // Stage r starts after r forwards. Each is idle for (p - 1)(tF + tB - 2 tW) between its first
  // forward and its last weight gradient, as long as weight gradients are the shortest piece.
  // Without waiting for the others it starts the next step then: the step is (p - 1) tF shorter,
  // which is when the last stage starts.
  TEST_CASE("zb-h2 costs its span where updates are validated after the step") {
    for (const int p : {2, 4, 8}) {
      for (const int m : {2 * p, 5 * p}) {
        const PlanDegrees plan = pipeline_of(p, m);
        const Priced waits = price(plan, 8192, "zb-h2");
        const Priced goes_on = price(plan, 8192, "zb-h2", OptimizerStart::PostValidated);
        REQUIRE(goes_on.weight <= std::min(goes_on.forward, goes_on.input));
        const Ticks idle = (p - 1) * (goes_on.forward + goes_on.input - 2 * goes_on.weight);
        INFO("p " << p << " m " << m);
        CHECK(std::abs(goes_on.bubble - idle) <= 4 * p);
        CHECK(std::abs(goes_on.step + goes_on.overlap - waits.step) <= 4 * p);
        CHECK(waits.overlap == 0);
      }
    }
  }

  // On the first stage 1F1B begins first and ends last: nothing to gain, and the runtime of the
  // validation has no such order.
  TEST_CASE("whole backwards wait for each other as before") {
    for (const char* schedule : {"1f1b", "gpipe"}) {
      const PlanDegrees plan = pipeline_of(4, 8);
      const Priced waits = price(plan, 512, schedule);
      const Priced goes_on = price(plan, 512, schedule, OptimizerStart::PostValidated);
      CHECK(goes_on.step == waits.step);
      CHECK(goes_on.overlap == 0);
    }
  }

  TEST_CASE("zb-h1 saves 2 (p - 1) weight gradients of 1f1b's bubble, to the tick") {
    // Attention has no weight gradient: in long sequences it is the shortest phase.
    for (const std::int64_t sequence : {512, 8192}) {
      for (const int p : {2, 4, 8}) {
        for (const int m : {p, 2 * p, 5 * p}) {
          PlanDegrees plan;
          plan.pipeline = p;
          plan.micro_batches = m;
          plan.micro_batch = sequence == 512 ? 4 : 1;
          const Priced plain = price(plan, sequence, "1f1b");
          const Priced split = price(plan, sequence, "zb-h1");
          INFO("p " << p << " m " << m << " F " << split.forward << " B " << split.input << " W "
                    << split.weight);
          const bool fits = split.weight <= std::min(split.forward, split.input);
          CHECK(fits == (sequence == 8192));
          const Ticks saved = plain.bubble - split.bubble;
          // Durations were rounded to ticks one by one, those of every micro-batch alike.
          if (fits) CHECK(std::abs(saved - 2 * (p - 1) * split.weight) <= p + m);
          CHECK(std::abs(plain.bubble - plain.graph_bubble) <= 4 * p + m);
          CHECK(std::abs(split.bubble - split.graph_bubble) <= 4 * p + m);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plansearch::zero_bubble_test
