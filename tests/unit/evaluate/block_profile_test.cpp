// SPDX-License-Identifier: Apache-2.0
// Times, communication and parameters of one block. One sequence of 512 tokens, h = 1024.
#include "evaluate/block/block_profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/toy_class.hpp"

namespace plansearch::block_profile_test {
namespace {

constexpr std::size_t kTensor = static_cast<std::size_t>(Purpose::Tensor);

PlanDegrees tensor_plan(int tensor) {
  PlanDegrees plan;
  plan.tensor_out = tensor;
  plan.data = 16 / tensor;
  plan.micro_batches = 32 / plan.data;
  return plan;
}

Problem hiding(double share) {
  Problem problem = test::with_framework(test::toy_problem(), [&](Framework& framework) {
    framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)].share = share;
    framework.constants.contention[static_cast<std::size_t>(Overlap::TensorParallel)] = 0.5;
  });
  Cluster cluster = *problem.cluster;
  cluster.accelerator.user_buffers = true;
  problem.cluster = std::make_shared<const Cluster>(std::move(cluster));
  return problem;
}

TEST_SUITE("unit") {
  TEST_CASE("compute of a pass is the sum of its kernels") {
    const test::ToyClass toy(test::toy_problem(), tensor_plan(2));
    Seconds forward, backward;
    for (const OperatorTime& time : toy.times(toy.block("decoder"))) {
      forward += time.forward;
      backward += time.backward;
    }
    const auto block = toy.profile("decoder");
    CHECK(block.forward.compute.value() == doctest::Approx(forward.value()));
    CHECK(block.backward.compute.value() == doctest::Approx(backward.value()));
    CHECK(block.recompute.compute == Seconds(0));
  }

  TEST_CASE("the processor issues kernels and collectives, and waits for tensor ranks") {
    // Forward: 2 norms, one fused query-key-value, attention, projection, 2 additions, MLP in,
    // activation, MLP out: 10 kernels, and 2 all-reduces: 12 x 20 us. Each collective of 4 ranks
    // skews by 4 x 4 us.
    const test::ToyClass toy(test::toy_problem(), tensor_plan(4));
    CHECK(toy.profile("decoder").forward.issue.value() ==
          doctest::Approx(12 * 20e-6 + 2 * 4 * 4e-6));
    const test::ToyClass alone(test::toy_problem(), tensor_plan(1));
    CHECK(alone.profile("decoder").forward.issue.value() == doctest::Approx(10 * 20e-6));
  }

  TEST_CASE("what hides costs its contention, what does not hide all of its time") {
    const auto passes = [](double share) {
      const test::ToyClass toy(hiding(share), tensor_plan(4));
      return toy.profile("decoder");
    };
    const auto bare = passes(0.0);
    Seconds all;
    for (const PricedCommunication& demand : bare.passes) {
      if (demand.communication.phase == DemandPhase::Forward) all += demand.time * demand.count;
    }
    CHECK(bare.forward.exposed[kTensor].value() == doctest::Approx(all.value()));
    // A tenth hides; at most half of what hides is lost again.
    const Seconds tenth = passes(0.1).forward.exposed[kTensor];
    CHECK(tenth >= 0.9 * all * (1 - 1e-12));
    CHECK(tenth <= 0.95 * all * (1 + 1e-12));
    CHECK(passes(0.1).forward.compute == bare.forward.compute);
  }

  TEST_CASE("no more hides than there is to hide it") {
    // However much the framework would hide: kernels hide their own time at most.
    const auto block = test::ToyClass(hiding(1.0), tensor_plan(8)).profile("decoder");
    Seconds all;
    for (const PricedCommunication& demand : block.passes) {
      if (demand.communication.phase == DemandPhase::Forward) all += demand.time * demand.count;
    }
    CHECK(block.forward.exposed[kTensor] + block.forward.compute >= all * (1 - 1e-12));
  }

  TEST_CASE("gathered parameters hide beside the whole of backward, recomputation and all") {
    const Problem problem = test::with_framework(test::toy_problem(), [](Framework& framework) {
      framework.overlap[static_cast<std::size_t>(Overlap::ParameterGather)].share = 1.0;
      framework.overlap[static_cast<std::size_t>(Overlap::GradientReduction)].share = 1.0;
      framework.constants.contention.fill(0.0);
    });
    PlanDegrees plan = tensor_plan(1);
    plan.zero = ZeroStage::Parameters;
    const auto data = static_cast<std::size_t>(Purpose::Data);
    const auto exposed = [&](Recompute recompute) {
      plan.recompute = recompute;
      const auto block = test::ToyClass(problem, plan).profile("decoder");
      Seconds sent;
      for (const PricedCommunication& demand : block.passes) {
        if (demand.communication.phase != DemandPhase::Forward) sent += demand.time * demand.count;
      }
      const Seconds kernels = block.backward.compute + block.recompute.compute;
      CHECK(block.backward.exposed[data].value() ==
            doctest::Approx(std::max(sent - kernels, Seconds(0)).value()));
      return block.backward.exposed[data];
    };
    // Both are longer than kernels: what runs again hides that much more.
    CHECK(exposed(Recompute::Full) > Seconds(0));
    CHECK(exposed(Recompute::Full) < exposed(Recompute::None));
  }

  TEST_CASE("parameters: local, tied ones apart, experts apart") {
    const test::ToyClass toy(test::toy_problem(), tensor_plan(4));
    const double h = 1024;
    CHECK(toy.profile("decoder").parameters ==
          ParameterCount{12 * h * h / 4 + 4 * h, 0, 12 * h * h / 4 + 4 * h, 0});
    const auto embedding = toy.profile("embedding");
    CHECK(embedding.parameters == ParameterCount{});
    REQUIRE(embedding.shared.size() == 1);
    CHECK(embedding.shared[0].count.dense == 51200 * h / 4);
    CHECK(toy.profile("head").parameters.dense == 2 * h);
    CHECK(toy.profile("head").shared[0].key == embedding.shared[0].key);

    test::ToyOptions options;
    options.experts = 8;
    PlanDegrees plan = tensor_plan(1);
    plan.expert = 4;
    const test::ToyClass moe(test::toy_problem(options), plan);
    const ParameterCount count = moe.profile("decoder-experts").parameters;
    CHECK(count.expert == 8 / 4 * 8 * h * h);         // two matrices of 4 h^2 each
    CHECK(count.dense == 4 * h * h + 4 * h + 8 * h);  // attention, norms, router
  }
}

}  // namespace
}  // namespace plansearch::block_profile_test
