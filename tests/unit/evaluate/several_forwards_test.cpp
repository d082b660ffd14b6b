// SPDX-License-Identifier: Apache-2.0
// Networks that micro-batches pass several times: every pass is time, FLOPs and messages; only the
// last one is memory. Expected values: the same plan of a network that is passed once, and the
// program of the plan.
#include <doctest/doctest.h>

#include <algorithm>

#include "evaluate/answer/plan_details.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "evaluate/step/priced_program.hpp"
#include "plan/legality/legality.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/plan_report.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"

namespace plansearch::evaluate_several_forwards_test {
namespace {

PlanDegrees plan_of(int data, int pipeline, const char* schedule) {
  PlanDegrees plan;
  plan.data = data;
  plan.pipeline = pipeline;
  plan.micro_batches = 8;
  plan.schedule = *find_schedule(schedule);
  return plan;
}

Problem problem_of(const PlanDegrees& plan, int forwards) {
  test::ToyOptions options;
  options.global_batch = plan.global_batch();
  options.gpus = plan.devices();
  Problem problem = test::with_framework(test::toy_problem(options), [](Framework& framework) {
    framework.schedules = schedule_names();
  });
  Network network = *problem.network;
  network.forwards = forwards;
  problem.network = std::make_shared<const Network>(std::move(network));
  return problem;
}

struct Priced {
  Estimate estimate;
  PlanReport report;
  std::vector<StageReport> stages;
};

Priced price(const PlanDegrees& degrees, int forwards) {
  const PlanEvaluator evaluator(problem_of(degrees, forwards));
  const auto plan = std::get<ParallelPlan>(evaluator.expand(degrees));
  Priced priced;
  priced.estimate = std::get<Estimate>(evaluator.evaluate(plan));
  priced.report = report_plan(evaluator, plan, priced.estimate);
  const auto workspace = PlanEvaluator::make_workspace();
  priced.stages = plan_details(evaluator, degrees, *workspace).stages;
  return priced;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("one stage: passes follow each other, and nothing of the earlier ones is kept") {
    const PlanDegrees plan = plan_of(2, 1, "1f1b");
    const Priced once = price(plan, 1);
    const Priced twice = price(plan, 2);
    const Priced thrice = price(plan, 3);
    const Seconds forward = once.stages.front().forward;
    CHECK(thrice.stages.front().forward.value() == doctest::Approx(3.0 * forward.value()));
    CHECK(thrice.stages.front().backward.value() ==
          doctest::Approx(once.stages.front().backward.value()));
    const auto step = [](const Priced& priced) { return priced.estimate.step.total().value(); };
    CHECK(step(twice) - step(once) == doctest::Approx(8.0 * forward.value()).epsilon(1e-6));
    CHECK(step(thrice) - step(once) == doctest::Approx(16.0 * forward.value()).epsilon(1e-6));
    CHECK(thrice.estimate.memory.total() == once.estimate.memory.total());
    // A forward is a third of a pass and its backward: 3 + 2 of 1 + 2.
    const double once_flops = once.report.model_rate_per_gpu.value() * step(once);
    CHECK(thrice.report.model_rate_per_gpu.value() * step(thrice) / once_flops ==
          doctest::Approx(5.0 / 3.0));
  }

  TEST_CASE("several stages: the step is that of its program, memory that of 1F1B") {
    const PlanDegrees plan = plan_of(2, 4, "3f1b");
    const PlanEvaluator evaluator(problem_of(plan, 3));
    const auto made = std::get<ParallelPlan>(evaluator.expand(plan));
    const auto estimate = std::get<Estimate>(evaluator.evaluate(made));
    const auto program = program_of(evaluator, made);
    CHECK(to_seconds(program->makespan()).value() ==
          doctest::Approx(estimate.step.total().value()).epsilon(1e-9));
    const auto peaks = peak_bytes(*program);
    Bytes worst;
    for (std::size_t d = 0; d < peaks.size(); ++d) {
      worst = std::max(worst, program->devices[d].always + peaks[d]);
    }
    CHECK(worst.value() == doctest::Approx(estimate.memory.total().value()).epsilon(1e-9));
    const Priced plain = price(plan_of(2, 4, "1f1b"), 1);
    CHECK(estimate.memory.total() == plain.estimate.memory.total());
    // Two messages back to the first stage per micro-batch.
    const auto returns =
        std::count_if(program->program.messages.begin(), program->program.messages.end(),
                      [&](const Message& message) {
                        const Channel& channel = program->program.channels[message.channel];
                        return channel.source == 3 && channel.destination == 0;
                      });
    CHECK(returns == 2 * 8);
    const auto workspace = PlanEvaluator::make_workspace();
    const PlanBound bound =
        BoundLadder(evaluator, *workspace).bound(*evaluator.profile(plan), plan);
    CHECK(bound.step_time <= estimate.step.total());
    CHECK(bound.memory <= estimate.memory.total());
  }

  TEST_CASE("orders and networks have to suit each other") {
    const auto refused = [](const PlanDegrees& plan, int forwards) {
      const Problem problem = problem_of(plan, forwards);
      const auto bad = check_legality(plan, *problem.network, *problem.framework, plan.devices());
      return bad ? to_text(*bad) : std::string();
    };
    CHECK(refused(plan_of(1, 4, "3f1b"), 3).empty());
    CHECK(refused(plan_of(1, 1, "1f1b"), 3).empty());
    CHECK(refused(plan_of(1, 4, "3f1b"), 1).find("orders several forward passes") !=
          std::string::npos);
    CHECK(refused(plan_of(1, 4, "1f1b"), 3)
              .find("1f1b takes 1 forward pass of a micro-batch, not 3; "
                    "with its passes in turn the order waits for itself") != std::string::npos);
    const Problem problem = problem_of(plan_of(1, 4, "3f1b"), 3);
    CHECK(default_schedule(*problem.framework, *problem.network, 4, 1) == *find_schedule("3f1b"));
    CHECK(default_schedule(*problem.framework, *problem.network, 1, 1) == kDefaultSchedule);
  }
}

}  // namespace plansearch::evaluate_several_forwards_test
