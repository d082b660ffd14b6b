// SPDX-License-Identifier: Apache-2.0
// Collectives of whole plans are priced on the ranks that run them: each price here is that of a
// group spelled out by hand. The toy machine has nodes of eight.
#include <doctest/doctest.h>

#include "cost/collective/collective_cost.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_class.hpp"

namespace plansearch::group_placement_test {
namespace {

std::vector<PricedCommunication> lines_of(const Problem& problem, const PlanDegrees& plan) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  return plan_details(evaluator, plan, *workspace).communication;
}

std::vector<StageReport> stages_of(const Problem& problem, const PlanDegrees& plan) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  return plan_details(evaluator, plan, *workspace).stages;
}

Seconds price(const Problem& problem, CommunicationKind kind, Bytes bytes,
              const ProcessGroup& group) {
  return collective_cost(*problem.cluster, kind, bytes, group, Contention::TrainingStep).time;
}

Problem problem_on(int gpus) {
  test::ToyOptions options;
  options.gpus = gpus;
  return test::toy_problem(options);
}

TEST_SUITE("unit") {
  TEST_CASE("the ends of a pipeline sum a tied table over the link between them") {
    // Four stages of tensor 4: the table lies on ranks 0 and 12, on two nodes; of tensor 2 on ranks
    // 0 and 6 of one node. 51200 x 1024 / tensor elements, 4 bytes each.
    for (const int tensor : {4, 2}) {
      const Problem problem = problem_on(4 * tensor);
      PlanDegrees plan;
      plan.tensor_out = tensor;
      plan.pipeline = 4;
      plan.micro_batches = 32;
      const Bytes table(4.0 * 51200 * 1024 / tensor);
      const Seconds apart = price(problem, CommunicationKind::AllReduce, table, {2, 8});
      const Seconds beside = price(problem, CommunicationKind::AllReduce, table, {2, 1});
      CHECK(apart > 2.0 * beside);
      // One replica: the table is all that the ends reduce, and nobody else reduces anything.
      const std::vector<StageReport> stages = stages_of(problem, plan);
      REQUIRE(stages.size() == 4);
      for (const std::size_t end : {std::size_t{0}, std::size_t{3}}) {
        CHECK(stages[end].reduction.value() ==
              doctest::Approx((tensor == 4 ? apart : beside).value()));
      }
      CHECK(stages[1].reduction == Seconds(0));
      CHECK(stages[2].reduction == Seconds(0));
    }
  }

  TEST_CASE("gradients over context and data ranks with tensor ranks between") {
    // Ranks context (2), tensor (4), data (2): 0 1 8 9 sum the gradient, two in each of two nodes.
    // Without the gap they would be the four ranks 0 1 2 3 of one node.
    const Problem problem = test::with_framework(problem_on(16), [](Framework& framework) {
      framework.rank_order = {Axis::Context, Axis::Out, Axis::Data, Axis::Pipeline};
    });
    PlanDegrees plan;
    plan.context = 2;
    plan.tensor_out = 4;
    plan.data = 2;
    plan.micro_batches = 16;
    ProcessGroup spread{2, 1};
    spread.nest({2, 8});
    spread.world = 16;
    int found = 0;
    for (const PricedCommunication& line : lines_of(problem, plan)) {
      if (line.communication.kind != CommunicationKind::AllReduce ||
          line.communication.group_size != 4)
        continue;
      if (line.bytes < Bytes(1e7)) continue;
      ++found;
      CHECK(line.time.value() ==
            doctest::Approx(price(problem, line.communication.kind, line.bytes, spread).value()));
      CHECK(line.time > 2.0 * price(problem, line.communication.kind, line.bytes, {4, 1}));
    }
    CHECK(found == 1);
  }
}

}  // namespace
}  // namespace plansearch::group_placement_test
