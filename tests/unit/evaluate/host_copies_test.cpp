// SPDX-License-Identifier: Apache-2.0
// What waits in memory of the host, against sums made by hand and against streams run copy by copy.
// One sequence of 512 tokens, h = 1024: a layer that runs again keeps 2 x 512 x 1024 bytes.
#include "evaluate/block/host_copies.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "plan/legality/legality.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "schedule/simulation/stream_program.hpp"
#include "support/toy_class.hpp"

namespace plansearch::host_copies_test {
namespace {

constexpr double kInput = 2.0 * 512 * 1024;
constexpr double kHidden = 1024;
constexpr double kLayer = 12 * kHidden * kHidden + 4 * kHidden;
constexpr std::size_t kOffload = static_cast<std::size_t>(Purpose::Offload);

Problem with_host(double to_device = 10e9, double from_device = 20e9) {
  Problem problem = test::with_framework(test::toy_problem(), [&](Framework& framework) {
    framework.offloads = {false, true, true, bit_of(LayerModule::CoreAttention)};
    framework.optimizer_offload = OptimizerOffload{GradientsToHost::AsReduced, false, 0.0};
  });
  Cluster cluster = *problem.cluster;
  cluster.host =
      Host{Bytes(64e9), Bandwidth(100e9), Bandwidth(to_device), Bandwidth(from_device), 0.5};
  problem.cluster = std::make_shared<const Cluster>(std::move(cluster));
  return problem;
}

HostTensors activations() {
  HostTensors tensors;
  tensors.activations = true;
  return tensors;
}

PlanDegrees plan(Recompute recompute, const HostTensors& tensors = {}) {
  PlanDegrees degrees;
  degrees.on_host = to_bits(tensors);
  degrees.data = 16;
  degrees.micro_batches = 2;
  degrees.recompute = recompute;
  return degrees;
}

/// One more copy of a block whose copy to the host runs beside the kernels of the next one.
double leaving(double kernels, double copy) {
  const StreamProgram program{
      {{0, Activity::Compute, 0.0, kernels, {}}, {1, Activity::Local, copy, 0.0, {{0, 0}}}}, 2};
  SteadyRun run;
  const ConcurrencyRates rates{};
  StreamSimulator(rates).steady(program, run);
  return run.steady.length;
}

/// The same of a copy that is on its way while the block before runs.
double arriving(double kernels, double copy) {
  const StreamProgram program{{{0, Activity::Compute, 0.0, 0.0, {}},
                               {1, Activity::Local, copy, 0.0, {{0, 1}}},
                               {0, Activity::Compute, 0.0, kernels, {{1, 0}}}},
                              2};
  SteadyRun run;
  const ConcurrencyRates rates{};
  StreamSimulator(rates).steady(program, run);
  return run.steady.length;
}

Estimate priced(const Problem& problem, const PlanDegrees& degrees) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  return evaluator.simulate(*evaluator.profile(degrees), degrees, *workspace);
}

TEST_SUITE("unit") {
  TEST_CASE("a pass takes as long as its kernels or its copies") {
    const PlanDegrees degrees = plan(Recompute::Full);
    const auto before = test::ToyClass(test::toy_problem(), degrees).profile("decoder");
    const double forward = before.forward.device().value();
    const double backward = before.recompute.device().value() + before.backward.device().value();
    for (const double rate :
         {10e9, kInput / (2 * forward), kInput / (0.5 * backward), kInput / (3 * backward)}) {
      CAPTURE(rate);
      const auto after = test::ToyClass(with_host(rate, rate), plan(Recompute::Full, activations()))
                             .profile("decoder");
      CHECK(after.forward.device().value() == doctest::Approx(leaving(forward, kInput / rate)));
      CHECK(after.recompute.device().value() + after.backward.device().value() ==
            doctest::Approx(arriving(backward, kInput / rate)));
      CHECK(after.forward.exposed[kOffload].value() ==
            doctest::Approx(std::max(0.0, kInput / rate - forward)));
    }
  }

  // 2 x 512 x 1024 bytes out at 20 GB/s and back at 10, whatever kernels take. Parameters that FSDP
  // fetches in the stream of their gathers still come beside them.
  TEST_CASE("kernels wait for copies in their own stream") {
    const Problem problem =
        test::with_framework(with_host(), [](Framework& f) { f.offloads_between_kernels = true; });
    for (const Recompute level : {Recompute::None, Recompute::Full}) {
      const auto before = test::ToyClass(test::toy_problem(), plan(level)).profile("decoder");
      const auto after = test::ToyClass(problem, plan(level, activations())).profile("decoder");
      const double bytes = before.memory.saved.value();
      CHECK((after.forward.device() - before.forward.device()).value() ==
            doctest::Approx(bytes / 20e9));
      CHECK((after.backward.device() - before.backward.device()).value() ==
            doctest::Approx(bytes / 10e9));
    }
    const PricingContext context = pricing_context(problem);
    const HostCopies copies = host_copies(context, Bytes(4e9), {Bytes(1e9), Bytes(2e9)});
    CHECK(copies.forward.value() == doctest::Approx(0.1));
    CHECK(copies.backward.value() == doctest::Approx(0.2));
    CHECK(copies.between_forward.value() == doctest::Approx(0.2));
    CHECK(copies.between_backward.value() == doctest::Approx(0.4));
  }

  TEST_CASE("links carry both directions at once, one after the other in each") {
    const Problem problem = with_host(10e9, 20e9);
    const PricingContext context = pricing_context(problem);
    const HostCopies copies = host_copies(context, Bytes(4e9), {Bytes(1e9), Bytes(1e9)});
    CHECK(copies.forward.value() == doctest::Approx(4e9 / 20e9));
    CHECK(copies.backward.value() == doctest::Approx((4e9 + 1e9) / 10e9));
    CHECK(host_copies(context, Bytes(1e9), {Bytes(1e9), Bytes(0)}).forward.value() ==
          doctest::Approx(1e9 / 10e9));
  }

  TEST_CASE("the device keeps two blocks of what waits on the host") {
    for (const Recompute level : {Recompute::None, Recompute::Full}) {
      const PlanDegrees degrees = plan(level);
      const auto before = test::ToyClass(test::toy_problem(), degrees).profile("decoder").memory;
      const auto after =
          test::ToyClass(with_host(), plan(level, activations())).profile("decoder").memory;
      CHECK(after.saved == Bytes(0));
      CHECK(after.offloaded == before.saved);
      CHECK(after.working_set.value() ==
            doctest::Approx((before.working_set + before.saved * 2.0).value()));
    }
    const auto full =
        test::ToyClass(with_host(), plan(Recompute::Full, activations())).profile("decoder");
    CHECK(full.memory.offloaded.value() == doctest::Approx(kInput));
  }

  TEST_CASE("modules leave what they keep, but what runs again") {
    HostTensors tensors;
    tensors.modules = bit_of(LayerModule::CoreAttention);
    const auto whole =
        test::ToyClass(test::toy_problem(), plan(Recompute::None)).profile("decoder").memory;
    const auto none =
        test::ToyClass(with_host(), plan(Recompute::None, tensors)).profile("decoder").memory;
    // Queries, keys, values and the result, in bf16, and what a fused kernel keeps of its scores.
    CHECK(none.offloaded.value() >= 4 * kInput);
    CHECK((none.saved + none.offloaded).value() == doctest::Approx(whole.saved.value()));
    const auto full =
        test::ToyClass(with_host(), plan(Recompute::Full, tensors)).profile("decoder").memory;
    CHECK(full.offloaded == Bytes(0));
  }

  // 8 layers of one micro-batch and 8 ranks a node; four stages of two layers: the first one has
  // forwards of four micro-batches before its first backward.
  TEST_CASE("hosts hold what micro-batches in flight keep") {
    PlanDegrees degrees = plan(Recompute::Full, activations());
    CHECK(priced(with_host(), degrees).host_memory.value() == doctest::Approx(8 * 8 * kInput));
    degrees.data = 4;
    degrees.pipeline = 4;
    degrees.micro_batches = 8;
    CHECK(priced(with_host(), degrees).host_memory.value() == doctest::Approx(8 * 4 * 2 * kInput));
    degrees.on_host = 0;
    CHECK(priced(with_host(), degrees).host_memory == Bytes(0));
  }

  // A rank keeps a sixteenth, 2 bytes a parameter, and copies it for each pass.
  TEST_CASE("parameters on the host come for every gather and leave the device") {
    HostTensors tensors;
    tensors.parameters = true;
    PlanDegrees degrees = plan(Recompute::None);
    degrees.zero = ZeroStage::Parameters;
    const double rate = 1e6;  // so slow that nothing hides it
    const auto before = test::ToyClass(test::toy_problem(), degrees).profile("decoder");
    degrees.on_host = to_bits(tensors);
    const auto after = test::ToyClass(with_host(rate, rate), degrees).profile("decoder");
    const double copy = kLayer / 16 * 2 / rate;
    CHECK(after.forward.device().value() == doctest::Approx(copy));
    CHECK(after.backward.device().value() == doctest::Approx(copy));
    CHECK(after.forward.exposed[kOffload].value() ==
          doctest::Approx(copy - before.forward.device().value()));
    const Estimate estimate = priced(with_host(), degrees);
    degrees.on_host = 0;
    const Estimate kept = priced(test::toy_problem(), degrees);
    CHECK(kept.memory.parameters > Bytes(0));
    CHECK(estimate.memory.parameters == Bytes(0));
    CHECK(estimate.host_memory.value() == doctest::Approx(8 * kept.memory.parameters.value()));
  }

  // Nothing of the parameters comes back after the update, gradients lie there as reduced.
  TEST_CASE("parameters and optimizer on the host: the update writes where parameters live") {
    HostTensors tensors;
    tensors.parameters = tensors.optimizer = true;
    PlanDegrees degrees = plan(Recompute::None, tensors);
    degrees.zero = ZeroStage::Parameters;
    const Estimate estimate = priced(with_host(1e15, 1e15), degrees);
    const double owned = (8 * kLayer + (51200 + 2) * kHidden) / 16;
    CHECK(estimate.memory.optimizer == Bytes(0));
    CHECK(estimate.memory.gradients == Bytes(0));
    // 12 bytes of states, gradient, 2 bytes of the parameter; states are read and written.
    const double gradient = 4;
    CHECK(estimate.host_memory.value() == doctest::Approx(8 * owned * (12 + gradient + 2)));
    CHECK(estimate.step.optimizer.value() ==
          doctest::Approx(8 * owned * (gradient + 24 + 2) / 50e9).epsilon(1e-6));
  }

  TEST_CASE("updates in backward keep the gradients of one block and of shared parameters") {
    PlanDegrees degrees = plan(Recompute::None);
    degrees.micro_batches = 1;
    const Problem in_backward = test::with_framework(
        test::toy_problem(), [](Framework& framework) { framework.optimizer_in_backward = true; });
    const Estimate before = priced(test::toy_problem(), degrees);
    const Estimate after = priced(in_backward, degrees);
    const double each = before.memory.gradients.value() / (8 * kLayer + (51200 + 2) * kHidden);
    CHECK(after.memory.gradients.value() == doctest::Approx(each * (kLayer + 51200 * kHidden)));
    CHECK(after.step.total() == before.step.total());
    degrees.micro_batches = 2;
    const auto refused = check_legality(degrees, *in_backward.network, *in_backward.framework, 16,
                                        in_backward.precision);
    REQUIRE(refused);
    CHECK(refused->detail.find("one micro-batch, not 2") != std::string::npos);
  }

  TEST_CASE("parameters on the host are those that ranks share") {
    HostTensors tensors;
    tensors.parameters = true;
    const Problem problem = with_host();
    PlanDegrees degrees = plan(Recompute::None, tensors);
    degrees.zero = ZeroStage::Gradients;
    CHECK(check_legality(degrees, *problem.network, *problem.framework, 16, problem.precision));
    degrees.zero = ZeroStage::Parameters;
    CHECK(!check_legality(degrees, *problem.network, *problem.framework, 16, problem.precision));
  }

  TEST_CASE("tensors on the host are not alive at the peak") {
    const PlanEvaluator evaluator(with_host());
    for (const Recompute level : {Recompute::None, Recompute::Full}) {
      const auto expanded = evaluator.expand(plan(level, activations()));
      const PeakReport peak = plan_details(evaluator, std::get<ParallelPlan>(expanded)).peak;
      Bytes sum;
      for (const HeldPart& part : peak.parts) {
        CAPTURE(part.what);
        CHECK_FALSE(part.what.starts_with("decoder: "));
        CHECK(part.bytes > Bytes(0));
        sum += part.bytes;
      }
      CHECK(sum.value() == doctest::Approx(peak.allocated.value()).epsilon(1e-9));
    }
  }
}

}  // namespace
}  // namespace plansearch::host_copies_test
