// SPDX-License-Identifier: Apache-2.0
// Expected values: the rows of figure 2 of Lin et al., nnScaler (OSDI 2024), read as micro-batches
// in the sequence in which a stage runs them; makespans of a script that passes tokens through the
// orders of the paper's table 4.
#include <doctest/doctest.h>

#include "../order_walk.hpp"
#include "golden.hpp"
#include "schedule/order/order_check.hpp"
#include "schedule/simulation/closed_form.hpp"
#include "schedule/table.hpp"
#include "schedule/templates/task_template.hpp"

namespace plansearch::testing::orders_several_forwards_test {
namespace {

PipelineShape thrice(int stages, int micro_batches) {
  PipelineShape shape = shape_of("3f1b", stages, micro_batches);
  shape.forwards = 3;
  return shape;
}

Ticks makespan(const PipelineShape& shape, UniformTimes times) {
  const PipelineDurations durations = uniform_durations(shape, times);
  PipelineSimulator simulator;
  const Ticks fast = simulator.run(shape, durations.view()).makespan;
  const auto slow = simulate_order(order_of(shape), durations.view());
  CHECK(std::get<Timeline>(slow).makespan() == fast);
  CHECK(order_bound(shape, durations.view()) <= fast);
  return fast;
}

TEST_SUITE("schedule") {
  TEST_CASE("3F1B: the rows of nnScaler's figure 2") {
    const ComputeOrder order = order_of(thrice(3, 4));
    std::vector<std::string> rows;
    for (const auto& steps : order.devices) {
      auto& row = rows.emplace_back();
      for (const ComputeStep& step : steps) row += std::to_string(step.micro_batch);
    }
    CHECK(rows ==
          std::vector<std::string>{"0102103213203123", "0102103210321323", "0102100321132233"});
    CHECK_FALSE(check_order(order));
  }

  TEST_CASE("3F1B: makespans") {
    CHECK(makespan(thrice(3, 4), {1, 1}) == 21);
    CHECK(makespan(thrice(4, 16), {1, 1}) == 74);
    CHECK(makespan(thrice(4, 32), {1, 1}) == 138);
    CHECK(makespan(thrice(4, 64), {1, 1}) == 266);
    CHECK(makespan(thrice(2, 16), {1, 1}) == 66);
    CHECK(makespan(thrice(4, 16), {1, 2}) == 92);
    CHECK(makespan(thrice(4, 32), {1, 2}) == 172);
  }

  // Two stages, one micro-batch: F at 0-1 and 1-2, back at 2 + 5 = 7; twice more; then two
  // backwards.
  TEST_CASE("3F1B: the way back takes as long as its message") {
    const PipelineShape shape = thrice(2, 1);
    PipelineDurations times = uniform_durations(shape, {1, 1});
    CHECK(times.activation_transfer.size() == 2);
    times.activation_transfer = {0, 5};
    PipelineSimulator simulator;
    CHECK(simulator.run(shape, times.view()).makespan == 3 * 2 + 2 * 5 + 2);
    CHECK(order_bound(shape, times.view()) == 18);
    CHECK(std::get<Timeline>(simulate_order(order_of(shape), times.view())).makespan() == 18);
  }

  // Only the last pass is kept: stage i of 4 (from 0) keeps as many as 1F1B, 4 - i.
  TEST_CASE("3F1B keeps what the last pass makes") {
    const PipelineShape shape = thrice(4, 16);
    for (int device = 0; device < 4; ++device) {
      CHECK(peak_chunks(shape, device) == 4 - device);
      CHECK(peak_chunks(order_of(shape), device) == 4 - device);
    }
  }

  TEST_CASE("3F1B of one pass is 1F1B") {
    PipelineShape shape = thrice(4, 8);
    shape.forwards = 1;
    CHECK(order_of(shape).devices == order_of(shape_of("1f1b", 4, 8)).devices);
  }

  TEST_CASE("3F1B: 8 stages, however many micro-batches") {
    // A first pass takes 8 slots to the last stage, the second begins then, and so does the third:
    // with itself and a backward the third ends 18 slots after the first began, and the first pass
    // three turns on comes behind it.
    const Ticks many = makespan(thrice(8, 64), {1, 1});
    CHECK(makespan(thrice(8, 67), {1, 1}) - many == 18);
    PipelineShape huge = thrice(8, 100'000);
    PipelineSimulator simulator;
    const PipelineDurations times = uniform_durations(huge, {1, 1});
    CHECK(simulator.run(huge, times.view()).makespan == many + (100'000 - 64) / 3 * 18);
  }

  // One forward, one backward: on the last stage the first backward comes behind the first pass,
  // and needs the third.
  TEST_CASE("1F1B's order on three passes waits for itself") {
    PipelineShape shape = shape_of("1f1b", 3, 4);
    shape.forwards = 3;
    const auto refused = make_order(shape);
    REQUIRE(std::holds_alternative<Infeasible>(refused));
    const std::string& detail = std::get<Infeasible>(refused).detail;
    INFO(detail);
    CHECK(
        detail ==
        "1f1b takes 1 forward pass of a micro-batch, not 3; with its passes in turn the order "
        "waits "
        "for itself: device 1: B0 of stage 1 needs F0 of pass 3 of stage 1, device 1: F0 of pass 3 "
        "of stage 1 is behind B0 of stage 1");
    const auto fault = check_order(with_forwards_in_a_row(order_of(shape_of("1f1b", 3, 4)), 3));
    REQUIRE(fault);
    CHECK(fault->kind == OrderFaultKind::Deadlock);
  }

  TEST_CASE("the template of a pipeline: nodes and what they need") {
    const ComputeOrder order = order_of(thrice(2, 1));
    const TaskTemplate nodes = pipeline_template(order);
    const PipelineNodes number(order);
    using enum Phase;
    CHECK(nodes.size() == 8);
    CHECK(nodes.inputs(number.of(0, Forward, 0)).empty());
    const auto needs = [&](NodeId id) {
      const auto inputs = nodes.inputs(id);
      return std::vector<NodeId>(inputs.begin(), inputs.end());
    };
    CHECK(needs(number.of(1, Forward, 1)) == std::vector{number.of(0, Forward, 1)});
    CHECK(needs(number.of(0, Forward, 2)) == std::vector{number.of(1, Forward, 1)});
    CHECK(needs(number.of(1, Backward)) == std::vector{number.of(1, Forward, 2)});
    CHECK(needs(number.of(0, Backward)) ==
          std::vector{number.of(1, Backward), number.of(0, Forward, 2)});
    CHECK(nodes.sequence().size() == 8);
  }
}

}  // namespace
}  // namespace plansearch::testing::orders_several_forwards_test
