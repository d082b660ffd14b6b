// SPDX-License-Identifier: Apache-2.0
// Overlap as a rule of when to post and when to wait. One sequence of 512 tokens, h = 1024.
#include "evaluate/block_program.hpp"

#include <doctest/doctest.h>

#include "support/toy_class.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kTensor = static_cast<std::size_t>(Purpose::Tensor);
constexpr std::size_t kData = static_cast<std::size_t>(Purpose::Data);

/// The toy machine with a framework whose messages of these kinds run ahead.
Problem ahead(std::vector<Overlap> kinds) {
  return test::with_framework(test::toy_problem(), [&](Framework& framework) {
    framework.overlap.fill({});
    for (const Overlap kind : kinds) {
      framework.overlap[static_cast<std::size_t>(kind)] = {0.0, MessageWait::Use, 1};
    }
    framework.constants["host_launch"] = 0.0;
    framework.sharding.unit = ParameterUnit::Parameter;
  });
}

/// AxoNN's axes: weights over out and depth.
PlanDegrees grid(int out, int depth, Recompute recompute = Recompute::None) {
  PlanDegrees plan;
  plan.tensor_out = out;
  plan.tensor_depth = depth;
  plan.data = 16 / (out * depth);
  plan.micro_batches = 2;
  plan.recompute = recompute;
  return plan;
}

Seconds pass_of(const BlockProfile& block) {
  return block.forward_length + block.backward_length;
}

TEST_SUITE("unit") {
  TEST_CASE("nothing ahead and nothing hidden: every program is as long as its sum") {
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      for (const auto& [out, depth] : {std::pair{1, 1}, {4, 1}, {1, 4}, {2, 2}, {4, 4}}) {
        const test::ToyClass toy(ahead({}), grid(out, depth, recompute));
        const auto block = toy.profile("decoder");
        const auto length = [&](BlockPass pass) {
          return toy.steady("decoder", pass).steady.length;
        };
        const auto inputs = block.input_gradient.device() + block.recompute.device();
        CHECK(length(BlockPass::Forward) == doctest::Approx(block.forward.device().value()));
        CHECK(length(BlockPass::Backward) ==
              doctest::Approx((block.backward.device() + block.recompute.device()).value()));
        CHECK(length(BlockPass::InputGradient) == doctest::Approx(inputs.value()));
        CHECK(length(BlockPass::WeightGradient) ==
              doctest::Approx(block.weight_gradient.device().value()));
        CHECK(toy.steady("decoder", BlockPass::Backward).edges.length == doctest::Approx(0));
      }
    }
  }

  TEST_CASE("the reduction of an input gradient hides under the same operator's weight gradient") {
    // Two all-reduces of a block's backward: after the MLP's first product and after query, key and
    // value. Each shows what its weight gradient is too short for.
    const test::ToyClass blocking(ahead({}), grid(4, 1));
    const test::ToyClass hiding(ahead({Overlap::TensorParallel}), grid(4, 1));
    Seconds expected;
    for (const auto& line : blocking.profile("decoder").passes) {
      const Communication& c = line.communication;
      if (c.phase != DemandPhase::InputGradient || c.subject != Subject::ActivationGradient)
        continue;
      const auto op = hiding.times(hiding.block("decoder"))[c.operator_index];
      expected += std::max(line.time - op.weight_gradient, Seconds(0));
    }
    CHECK(hiding.profile("decoder").backward.exposed[kTensor].value() ==
          doctest::Approx(expected.value()));
    CHECK(hiding.profile("decoder").forward.exposed[kTensor].value() ==
          doctest::Approx(blocking.profile("decoder").forward.exposed[kTensor].value()));
  }

  TEST_CASE("each switch alone and all together are never slower, and faster where bytes move") {
    const std::vector<std::vector<Overlap>> sets{
        {Overlap::TensorParallel},
        {Overlap::GradientReduction},
        {Overlap::ParameterGather},
        {Overlap::TensorParallel, Overlap::GradientReduction, Overlap::ParameterGather}};
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      for (const auto& [out, depth] : {std::pair{4, 1}, {1, 4}, {2, 4}, {4, 4}}) {
        const PlanDegrees plan = grid(out, depth, recompute);
        const auto blocking = test::ToyClass(ahead({}), plan).profile("decoder");
        for (std::size_t i = 0; i < sets.size(); ++i) {
          const auto hiding = test::ToyClass(ahead(sets[i]), plan).profile("decoder");
          CAPTURE(i);
          CAPTURE(out);
          CAPTURE(depth);
          CAPTURE(static_cast<int>(recompute));
          CHECK(pass_of(hiding) <= pass_of(blocking) + Seconds(1e-15));
          const bool works = i == 3 || (i == 0 ? out > 1 : depth > 1);
          CHECK((pass_of(hiding) < pass_of(blocking) - Seconds(1e-9)) == works);
        }
      }
    }
  }

  TEST_CASE("reductions of weights are waited for when backward is over") {
    // Alone in the pass and shorter than what follows: only the last operator's own is seen, at
    // the end of a run of copies.
    const test::ToyClass toy(ahead({Overlap::GradientReduction}), grid(1, 4));
    const auto blocking = test::ToyClass(ahead({}), grid(1, 4)).profile("decoder");
    const auto block = toy.profile("decoder");
    CHECK(block.backward.exposed[kData] < blocking.backward.exposed[kData]);
    CHECK(block.backward_edges.exposed[kData] > Seconds(0));
  }
}

}  // namespace
}  // namespace plansearch
