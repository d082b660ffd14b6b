// SPDX-License-Identifier: Apache-2.0
// Report of messages on streams: one line each, exposed as in the breakdown.
#include <doctest/doctest.h>

#include <algorithm>

#include "evaluate/answer/plan_details.hpp"
#include "evaluate/step/priced_program.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_class.hpp"

namespace plansearch::overlap_report_test {
namespace {

Problem on_streams() {
  return test::with_framework(test::toy_problem(), [](Framework& framework) {
    framework.overlap.fill({0.0, MessageWait::Use, {}, 1});
    framework.sharding.unit = ParameterUnit::Launch;
    framework.rules.clear();
    framework.rank_order = {Axis::In,      Axis::Out,  Axis::Depth,
                            Axis::Context, Axis::Data, Axis::Pipeline};
  });
}

TEST_SUITE("unit") {
  TEST_CASE("hidden messages name the kernels beside them, and lines sum to the breakdown") {
    PlanDegrees plan;
    plan.tensor_out = 4;
    plan.tensor_depth = 4;
    plan.micro_batches = 8;
    const Problem problem = on_streams();
    const PlanEvaluator evaluator(problem);
    const Evaluation evaluation = evaluator.evaluate(plan);
    REQUIRE(std::holds_alternative<Estimate>(evaluation));
    const Estimate& estimate = std::get<Estimate>(evaluation);
    const PlanReport report = report_plan(evaluator, plan, estimate);
    // The two all-reduces of a layer's backward run under weight gradients.
    int reduced = 0;
    for (const HiddenMessage& m : report.hidden) {
      if (m.block != "decoder" || m.pass != "backward" || m.repeated) continue;
      if (m.kind != CommunicationKind::AllReduce) continue;
      ++reduced;
      CHECK_FALSE(m.under.empty());
      CHECK(m.exposed < m.time);
    }
    CHECK(reduced == 2);
    // One launch, one message.
    CHECK(std::any_of(report.hidden.begin(), report.hidden.end(), [](const HiddenMessage& m) {
      return m.what == "query, key, value.weight" && m.kind == CommunicationKind::AllGather;
    }));
    Seconds exposed;
    for (const PricedCommunication& line : report.communication) exposed += line.exposed;
    CHECK(exposed.value() == doctest::Approx(estimate.step.exposed_total().value()));
  }

  TEST_CASE("timelines of blocks: two copies, every stream one thing at a time") {
    PlanDegrees plan;
    plan.tensor_out = 4;
    plan.tensor_depth = 4;
    plan.micro_batches = 8;
    const PlanEvaluator evaluator(on_streams());
    const auto program =
        program_of(evaluator, std::get<ParallelPlan>(evaluator.expand(plan)), ProgramRequest{});
    const Estimate estimate = std::get<Estimate>(evaluator.evaluate(plan));
    CHECK(estimate.step.recompute == Seconds(0));
    Seconds kernels;
    for (const BlockTimeline& block : program->blocks) {
      CAPTURE(block.name);
      REQUIRE(block.streams.size() > 1);
      CHECK(block.streams.front() == "kernels");
      std::vector<Seconds> until(block.streams.size());
      std::vector<std::string> names(block.streams.size());
      for (const BlockTimeline::Slice& slice : block.slices) {  // in the order in which they end
        Seconds& before = until[static_cast<std::size_t>(slice.stream)];
        CHECK(slice.start >= before);
        CHECK(slice.message == (slice.stream != 0));
        before = slice.end;
        const double layers = block.name.starts_with("decoder") ? 8.0 : 1.0;
        if (!slice.message) kernels += 0.5 * layers * (slice.end - slice.start);
      }
    }
    // Kernels of a step: one copy of every block and layer, for each of the micro-batches.
    CHECK(8.0 * kernels.value() == doctest::Approx(estimate.step.compute.value()));
  }
}

}  // namespace
}  // namespace plansearch::overlap_report_test
