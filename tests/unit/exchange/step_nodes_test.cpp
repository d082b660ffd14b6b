// SPDX-License-Identifier: Apache-2.0
// The nodes of a step against the stages of its report, and what one end sends against what the
// other receives.
#include "exchange/traces/step_nodes.hpp"

#include <doctest/doctest.h>

#include <map>

#include "plansearch/error.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_class.hpp"

namespace plansearch::step_nodes_test {
namespace {

constexpr int kMicroBatches = 4;

PlanDegrees plan_of(int tensor, int pipeline, int data) {
  PlanDegrees plan;
  plan.tensor_out = tensor;
  plan.pipeline = pipeline;
  plan.data = data;
  plan.micro_batches = kMicroBatches;
  return plan;
}

Problem problem_of(const PlanDegrees& plan) {
  test::ToyOptions options;
  options.global_batch = plan.global_batch();
  options.gpus = plan.devices();
  return test::toy_problem(options);
}

using Kind = StepNode::Kind;

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("kernels of a stage last as long as its passes") {
    const PlanDegrees degrees = plan_of(1, 2, 1);
    const PlanEvaluator evaluator(problem_of(degrees));
    const auto plan = std::get<ParallelPlan>(evaluator.expand(degrees));
    const auto step = step_nodes(evaluator, plan);
    const PlanDetails details = plan_details(evaluator, plan);
    REQUIRE(step.stages.size() == 2);
    for (std::size_t s = 0; s < 2; ++s) {
      Seconds kernels;
      for (const StepNode& node : step.stages[s]) {
        if (node.kind == Kind::Kernels && node.micro_batch >= 0) kernels += node.time;
      }
      const StageReport& stage = details.stages[s];
      CHECK(kernels.value() ==
            doctest::Approx(kMicroBatches * (stage.forward + stage.backward).value()));
    }
  }

  TEST_CASE("what a stage sends the other receives, and nothing waits for what is to come") {
    const PlanDegrees degrees = plan_of(2, 2, 2);
    const PlanEvaluator evaluator(problem_of(degrees));
    const auto step = step_nodes(evaluator, std::get<ParallelPlan>(evaluator.expand(degrees)));
    std::map<std::uint32_t, double> sent, received;
    for (const auto& nodes : step.stages) {
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        for (const std::uint32_t before : nodes[i].after) CHECK(before < i);
        if (nodes[i].kind == Kind::Send) sent[nodes[i].number] = nodes[i].bytes.value();
        if (nodes[i].kind == Kind::Receive) received[nodes[i].number] = nodes[i].bytes.value();
      }
    }
    CHECK(sent.size() == 2 * kMicroBatches);  // an activation and a gradient of each
    CHECK(sent == received);
  }

  TEST_CASE("a stage calls every collective that its report lists, byte for byte") {
    for (const auto& [tensor, data, zero] :
         {std::tuple{2, 2, ZeroStage::None}, {1, 4, ZeroStage::Optimizer}}) {
      PlanDegrees degrees = plan_of(tensor, 1, data);
      degrees.zero = zero;
      const PlanEvaluator evaluator(problem_of(degrees));
      const auto plan = std::get<ParallelPlan>(evaluator.expand(degrees));
      std::map<CommunicationKind, double> nodes, report;
      const auto step = step_nodes(evaluator, plan);
      for (const StepNode& node : step.stages.front()) {
        if (node.kind == Kind::Collective) nodes[node.how] += node.bytes.value();
      }
      for (const PricedCommunication& line : plan_details(evaluator, plan).communication) {
        report[line.communication.kind] += line.count * line.bytes.value();
      }
      REQUIRE(nodes.size() == report.size());
      for (const auto& [kind, bytes] : report) CHECK(nodes[kind] == doctest::Approx(bytes));
    }
  }
}

}  // namespace plansearch::step_nodes_test
