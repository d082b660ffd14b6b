// SPDX-License-Identifier: Apache-2.0
// The program of a plan against the two answers that are made without it: the step time of the
// fast simulators and the peak of the memory model.
#include "evaluate/step/priced_program.hpp"
#include "evaluate/answer/plan_details.hpp"

#include <doctest/doctest.h>

#include "plansearch/plan_report.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"

namespace plansearch::priced_program_test {
namespace {

PlanDegrees plan_of(int data, int pipeline, int chunks, int micro_batches, ScheduleId schedule) {
  PlanDegrees plan;
  plan.data = data;
  plan.pipeline = pipeline;
  plan.chunks = chunks;
  plan.micro_batches = micro_batches;
  plan.schedule = schedule;
  return plan;
}

Problem problem_of(const PlanDegrees& plan) {
  test::ToyOptions options;
  options.global_batch = plan.global_batch();
  options.gpus = plan.devices();
  return test::with_framework(test::toy_problem(options),
                              [](Framework& framework) { framework.schedules = schedule_names(); });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a program ends with the step and holds the peak, whatever the schedule") {
    for (const ScheduleId schedule : all_schedules()) {
      for (const int chunks : {1, 2, 4}) {
        for (const int pipeline : {1, 2, 4}) {
          const PlanDegrees degrees = plan_of(2, pipeline, chunks, 8, schedule);
          const PlanEvaluator evaluator(problem_of(degrees));
          const auto plan = evaluator.expand(degrees);
          if (std::holds_alternative<Infeasible>(plan)) continue;
          INFO(to_text(schedule), " pp ", pipeline, " vpp ", chunks);
          const auto& made = std::get<ParallelPlan>(plan);
          const auto program = program_of(evaluator, made);
          const auto workspace = PlanEvaluator::make_workspace();
          const Estimate estimate =
              evaluator.simulate(*evaluator.profile(degrees), degrees, *workspace);
          // Parts are rounded to picoseconds one by one.
          CHECK(to_seconds(program->makespan()).value() ==
                doctest::Approx(estimate.step.total().value()).epsilon(1e-9));
          const auto peaks = peak_bytes(*program);
          Bytes worst;
          for (std::size_t d = 0; d < peaks.size(); ++d) {
            worst = std::max(worst, program->devices[d].always + peaks[d]);
          }
          // An order made for the case is only promised not to keep more than it may.
          if (schedule_row(schedule).tuned) CHECK(worst <= estimate.memory.total());
          if (schedule_row(schedule).tuned) continue;
          CHECK(worst.value() == doctest::Approx(estimate.memory.total().value()).epsilon(1e-9));
        }
      }
    }
  }

  TEST_CASE("a step of lists ends with its program, and passes only shorten it") {
    const PlanDegrees degrees = plan_of(2, 4, 1, 8, *find_schedule("1f1b"));
    Problem problem = problem_of(degrees);
    Framework lists = *problem.framework;
    lists.pipeline_lists = PipelineLists::JustInTime;
    problem.framework = std::make_shared<const Framework>(lists);
    const auto step_of = [&](std::optional<std::uint32_t> passes) {
      problem.passes = passes;
      const PlanEvaluator evaluator(problem);
      const auto plan = std::get<ParallelPlan>(evaluator.expand(degrees));
      const auto estimate = std::get<Estimate>(evaluator.evaluate(plan));
      CHECK(estimate.step.total().value() ==
            doctest::Approx(to_seconds(program_of(evaluator, plan)->makespan()).value())
                .epsilon(1e-9));
      return estimate;
    };
    const Estimate before = step_of(std::nullopt);
    CHECK(step_of(0).step.total() == before.step.total());
    const Estimate after = step_of(all_passes());
    CHECK(after.step.total() < before.step.total());
    // The buffers that passes add are memory of the plan.
    CHECK(after.memory.buffers >= before.memory.buffers);
    problem.passes = all_passes();
    const PlanEvaluator evaluator(problem);
    const auto plan = std::get<ParallelPlan>(evaluator.expand(degrees));
    const PlanReport report = report_plan(evaluator, plan, after);
    REQUIRE(report.passes.size() == program_passes().size());
    CHECK(report.passes.front().before.value() ==
          doctest::Approx(before.step.total().value()).epsilon(1e-9));
    CHECK(report.passes.back().after.value() ==
          doctest::Approx(after.step.total().value()).epsilon(1e-9));
  }

  TEST_CASE("a step that runs into the next one is the span of its program") {
    const PlanDegrees degrees = plan_of(2, 4, 1, 8, *find_schedule("zb-h2"));
    test::ToyOptions options;
    options.global_batch = degrees.global_batch();
    options.gpus = degrees.devices();
    options.tied = false;
    Problem problem = test::with_framework(test::toy_problem(options), [](Framework& framework) {
      framework.schedules = schedule_names();
      framework.optimizer_start = OptimizerStart::PostValidated;
    });
    for (const auto passes : {std::optional<std::uint32_t>(), std::optional<std::uint32_t>(0)}) {
      problem.passes = passes;
      const PlanEvaluator evaluator(problem);
      const auto plan = std::get<ParallelPlan>(evaluator.expand(degrees));
      const auto estimate = std::get<Estimate>(evaluator.evaluate(plan));
      const auto program = program_of(evaluator, plan);
      CHECK(estimate.step.total().value() ==
            doctest::Approx(to_seconds(span(*program)).value()).epsilon(1e-9));
      CHECK((estimate.step.total() + estimate.next_step_overlap).value() ==
            doctest::Approx(to_seconds(program->makespan()).value()).epsilon(1e-9));
      CHECK(estimate.next_step_overlap > Seconds(0));
    }
  }

  // Where messages leave the node, the activation and the gradient of a middle stage may be on
  // their way at once; nothing gets faster by sharing.
  TEST_CASE("shared cards never make a step shorter") {
    const PlanDegrees degrees = plan_of(1, 4, 1, 8, *find_schedule("1f1b"));
    const PlanEvaluator evaluator(problem_of(degrees));
    const auto plan = std::get<ParallelPlan>(evaluator.expand(degrees));
    CHECK(program_of(evaluator, plan, {.links = MessageLinks::Shared})->makespan() >=
          program_of(evaluator, plan)->makespan());
  }
}

}  // namespace plansearch::priced_program_test
