// SPDX-License-Identifier: Apache-2.0
// Optimizer states on the host against sums made by hand. The toy network holds n = 8 (12 h^2 + 4
// h)
// + 51200 h + 2 h parameters, h = 1024; 16 ranks, 8 a node, each updates n / 16 of them. Adam: 12
// bytes of states per parameter, an fp32 gradient of 4, parameters of 2.
#include <doctest/doctest.h>

#include <algorithm>

#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::host_update_test {
namespace {

constexpr double kHidden = 1024;
constexpr double kAll = 8 * (12 * kHidden * kHidden + 4 * kHidden) + (51200 + 2) * kHidden;
constexpr double kOwned = kAll / 16;

Host host() {
  return {Bytes(64e9), Bandwidth(100e9), Bandwidth(10e9), Bandwidth(20e9), 0.5};
}

Problem offloaded(OptimizerOffload offload, const Host& host) {
  Problem problem = test::toy_problem();
  auto framework = std::make_shared<Framework>(*problem.framework);
  framework->optimizer_offload = offload;
  framework->rules.push_back({"optimizer-offload-min-zero", 1, "needs ZeRO"});
  framework->rules.push_back({"optimizer-offload-max-zero", 2, "not with sharded parameters"});
  problem.framework = framework;
  auto cluster = std::make_shared<Cluster>(*problem.cluster);
  cluster->host = host;
  problem.cluster = cluster;
  return problem;
}

PlanDegrees plan(ZeroStage zero = ZeroStage::Gradients) {
  PlanDegrees degrees;
  degrees.data = 16;
  degrees.micro_batches = 2;
  degrees.zero = zero;
  degrees.on_host = to_bits({true, false, false, {}});
  return degrees;
}

struct Priced {
  Estimate estimate;
  Seconds backward;
};

Priced price(const Problem& problem, const PlanDegrees& degrees) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  const auto profile = evaluator.profile(degrees);
  return {evaluator.simulate(*profile, degrees, *workspace),
          plan_details(evaluator, degrees, *workspace).stages.front().backward};
}

/// 8 ranks read and write 30 bytes and `extra` of each parameter at half of 100 GB/s; 2 bytes come
/// back at 10 GB/s.
double update_seconds(double extra) {
  return 8 * kOwned * (4 + 2 * 12 + 2 + extra) / 50e9 + kOwned * 2 / 10e9;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("states on the host: update, copies and memory of a step") {
    const Priced p = price(offloaded({GradientsToHost::AtStep, true, 6}, host()), plan());
    CHECK(p.estimate.step.optimizer.value() ==
          doctest::Approx(update_seconds(6) + kOwned * 4 / 20e9));
    CHECK(p.estimate.memory.optimizer == Bytes(0));
    CHECK(p.estimate.memory.gradients.value() == doctest::Approx(4 * kOwned));
    CHECK(p.estimate.host_memory.value() == doctest::Approx(8 * kOwned * (12 + 4 + 2)));
  }

  TEST_CASE("states on the host: a node that is not full has as many ranks as are used") {
    Problem problem = offloaded({GradientsToHost::AtStep, true, 6}, host());
    problem.gpus = 4;
    PlanDegrees degrees = plan();
    degrees.data = 4;
    degrees.micro_batches = 8;
    CHECK(price(problem, degrees).estimate.host_memory.value() ==
          doctest::Approx(4 * (kAll / 4) * (12 + 4 + 2)));
  }

  // At the step 4 bytes a parameter; before, every one of two micro-batches 4 bytes there and the
  // sum so far back; two backward passes hide them.
  TEST_CASE("gradients that leave as they are reduced hide behind backward and leave no shard") {
    Host slow = host();
    slow.from_device = Bandwidth(5e9);
    slow.to_device = Bandwidth(2.5e9);
    const Priced p = price(offloaded({GradientsToHost::AsReduced, true, 0}, slow), plan());
    const double copies = kOwned * 4 / 5e9 + 2 * (kOwned * 4 / 5e9 + kOwned * 4 / 2.5e9);
    const double exposed = copies - 2 * p.backward.value();
    CHECK(exposed > 0.0);
    CHECK(p.estimate.step.optimizer.value() ==
          doctest::Approx(8 * kOwned * 30 / 50e9 + kOwned * 2 / 2.5e9 + exposed));
    CHECK(p.estimate.memory.gradients == Bytes(0));
    Host fast = host();
    fast.from_device = Bandwidth(10e12);
    fast.to_device = Bandwidth(10e12);
    const Priced hidden = price(offloaded({GradientsToHost::AsReduced, true, 0}, fast), plan());
    CHECK(hidden.estimate.step.optimizer.value() ==
          doctest::Approx(8 * kOwned * 30 / 50e9 + kOwned * 2 / 10e12));
  }

  // One micro-batch: nothing to add its gradients to, so that they leave once, beside its backward.
  TEST_CASE("gradients of the only micro-batch go to the host once") {
    Host slow = host();
    slow.from_device = Bandwidth(1e9);
    PlanDegrees once = plan();
    once.micro_batches = 1;
    const Priced p = price(offloaded({GradientsToHost::AsReduced, true, 0}, slow), once);
    const double exposed = kOwned * 4 / 1e9 - p.backward.value();
    CHECK(exposed > 0.0);
    CHECK(p.estimate.step.optimizer.value() == doctest::Approx(update_seconds(0) + exposed));
  }

  TEST_CASE("gradients that no micro-batch reduces stay until the step") {
    const Priced p =
        price(offloaded({GradientsToHost::AsReduced, true, 0}, host()), plan(ZeroStage::Optimizer));
    CHECK(p.estimate.memory.gradients.value() == doctest::Approx(4 * kAll));
    const double exposed = std::max(0.0, kOwned * 4 / 20e9 - p.backward.value());
    CHECK(p.estimate.step.optimizer.value() == doctest::Approx(update_seconds(0) + exposed));
  }

  TEST_CASE("hosts without room, and stages that rules forbid, are refused") {
    Host small = host();
    small.memory = Bytes(8 * kOwned * 18 - 1e6);
    const PlanEvaluator evaluator(offloaded({GradientsToHost::AtStep, true, 0}, small));
    const Evaluation evaluation = evaluator.evaluate(plan());
    REQUIRE(std::holds_alternative<InfeasiblePlan>(evaluation));
    CHECK(std::get<InfeasiblePlan>(evaluation).reason.obstacle == Obstacle::OutOfMemory);
    CHECK(
        std::get<InfeasiblePlan>(evaluation).reason.detail.starts_with("what is offloaded needs"));
    CHECK(evaluator.legality(plan(ZeroStage::None))->detail == "toy: needs ZeRO");
    CHECK(evaluator.legality(plan(ZeroStage::Parameters))->detail ==
          "toy: not with sharded parameters");
  }
}

}  // namespace plansearch::host_update_test
