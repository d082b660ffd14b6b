// SPDX-License-Identifier: Apache-2.0
// Operators and edges are the parts of a block: where nothing hides they sum to its passes, to the
// tick, and every message is paid for once.
#include "evaluate/block/operator_price.hpp"

#include <doctest/doctest.h>

#include "random_plans.hpp"
#include "schedule/simulation/pipeline.hpp"
#include "support/toy_class.hpp"

namespace plansearch::operator_price_test {
namespace {

Problem nothing_hides(const test::ToyOptions& options) {
  return test::with_framework(test::toy_problem(options),
                              [](Framework& framework) { framework.overlap.fill({}); });
}

/// Every operator, and every pair of those that an edge may join.
PhaseTimes sum_of_parts(const Block& block, const BlockIndex& index, const BlockWork& work) {
  const std::size_t count = block.operators.size();
  PhaseTimes sum;
  for (std::size_t i = 0; i < count; ++i) {
    sum += operator_price(work, i);
    sum += edge_price(work, index, kEdge, i);
    sum += edge_price(work, index, i, kNextBlock);
    for (std::size_t j = i + 1; j < count; ++j) sum += edge_price(work, index, i, j);
  }
  sum += edge_price(work, index, kEdge, kNextBlock);
  return sum;
}

void check_sums(const Problem& problem, const PlanDegrees& plan) {
  const ProfileMaker maker(problem);
  const DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
  const auto profile = maker.profile(plan, mesh);
  const auto work = maker.work(plan, mesh);
  for (std::size_t b = 0; b < profile->blocks.size(); ++b) {
    PhaseTimes sum = sum_of_parts(problem.network->blocks[b], maker.index()[b], work->blocks[b]);
    for (const PhaseMessage& kept : profile->states->blocks[b].passes) {
      const Seconds time = kept.time * static_cast<double>(kept.communication.count);
      const bool forward = kept.communication.phase == DemandPhase::Forward;
      (forward ? sum.forward : sum.input_gradient) += time;
    }
    const BlockProfile& block = profile->blocks[b];
    CHECK(to_ticks(sum.forward) == to_ticks(block.forward.device()));
    CHECK(to_ticks(sum.input_gradient + sum.weight_gradient) == to_ticks(block.backward.device()));
  }
}

PlanDegrees tensor_plan() {
  PlanDegrees plan;
  plan.tensor_out = 4;
  plan.data = 4;
  plan.micro_batches = 8;
  return plan;
}

TEST_SUITE("property") {
  TEST_CASE("operators and edges sum to their block") {
    for (const std::int64_t experts : {0, 8}) {
      test::ToyOptions options;
      options.experts = experts;
      const Problem problem = nothing_hides(options);
      const PlanEvaluator evaluator(problem);
      std::mt19937 engine(31);
      int checked = 0;
      for (int i = 0; i < 120; ++i) {
        const auto plan = test::random_plan(engine, evaluator);
        if (!plan) continue;
        INFO(test::describe(*plan));
        check_sums(problem, *plan);
        ++checked;
      }
      CHECK(checked > 10);
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a tensor-parallel pair pays on the edge behind its second product") {
    // Megatron's f and g (Shoeybi et al., arXiv 1909.08053): the MLP sums its output forward and
    // the gradient of its input backward, once each, and nothing in between.
    const Problem problem = nothing_hides({});
    const ProfileMaker maker(problem);
    const PlanDegrees plan = tensor_plan();
    const DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
    const auto work = maker.work(plan, mesh);
    for (std::size_t b = 0; b < work->blocks.size(); ++b) {
      const Block& block = problem.network->blocks[b];
      if (block.name != "decoder") continue;
      int forward_edges = 0;
      int backward_edges = 0;
      for (std::size_t i = 0; i < block.operators.size(); ++i) {
        for (std::size_t j = i + 1; j < block.operators.size(); ++j) {
          const PhaseTimes edge = edge_price(work->blocks[b], maker.index()[b], i, j);
          forward_edges += edge.forward > Seconds(0) ? 1 : 0;
          backward_edges += edge.input_gradient > Seconds(0) ? 1 : 0;
        }
        CHECK(operator_price(work->blocks[b], i).forward == work->blocks[b].operators[i].forward);
      }
      CHECK(forward_edges == 2);  // attention and MLP
      CHECK(backward_edges == 2);
    }
  }
}

}  // namespace
}  // namespace plansearch::operator_price_test
