// SPDX-License-Identifier: Apache-2.0
// A forward of one micro-batch beside a backward of another: bounds that any order of their parts
// has, and what is left of a step. Mixture of 8 experts over 4 devices of a node, top 2.
#include <doctest/doctest.h>

#include "evaluate/block/block_program.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plansearch/evaluator.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"

namespace plansearch::joined_pass_test {
namespace {

constexpr auto kExchange = static_cast<std::size_t>(Overlap::ExpertAllToAll);

/// Links of `speed` times the toy machine's; only exchanges of experts take time, and no host.
Problem mixture(double speed, bool joined) {
  test::ToyOptions options;
  options.experts = 8;
  Problem problem = test::with_framework(test::toy_problem(options), [&](Framework& framework) {
    framework.overlap.fill({});
    framework.overlap[kExchange].joined = joined;
    framework.constants.host_launch = Seconds(0);
    framework.schedules.emplace_back("dualpipe");
  });
  Cluster cluster = *problem.cluster;
  for (LinkTier& tier : cluster.tiers) {
    tier.bandwidth *= speed;
    if (auto* link = std::get_if<LocalLinkCurve>(&tier.curve)) {
      link->low_latency *= speed;
      link->low_latency_128 *= speed;
      link->simple *= speed;
    }
  }
  problem.cluster = std::make_shared<const Cluster>(cluster);
  return problem;
}

PlanDegrees plan_of(int pipeline) {
  PlanDegrees plan;
  plan.pipeline = pipeline;
  plan.data = 16 / pipeline;
  plan.expert = 4;
  plan.micro_batch = 1;
  plan.micro_batches = 32 / plan.data;
  if (pipeline > 1) plan.schedule = *find_schedule("dualpipe");
  return plan;
}

struct Sums {
  Seconds kernels;
  Seconds messages;
};

Sums sums_of(const test::ToyClass& toy) {
  const auto profile = toy.profile("decoder-experts");
  Sums sums{profile.forward.compute + profile.backward.compute, {}};
  for (const PricedCommunication& line : profile.passes) sums.messages += line.time * line.count;
  return sums;
}

TEST_SUITE("unit") {
  TEST_CASE("side by side: at least all kernels and all messages, at most one after the other") {
    for (const double speed : {0.01, 0.3, 1.0, 100.0}) {
      CAPTURE(speed);
      const test::ToyClass toy(mixture(speed, true), plan_of(1));
      const Sums sums = sums_of(toy);
      const double length = toy.steady("decoder-experts", BlockPass::Joined).steady.length;
      CHECK(length >= sums.kernels.value() * (1.0 - 1e-9));
      CHECK(length >= sums.messages.value() * (1.0 - 1e-9));
      CHECK(length <= (sums.kernels + sums.messages).value() * (1.0 + 1e-9));
    }
  }

  TEST_CASE("side by side: short messages hide whole, long ones hide all kernels") {
    const auto length = [](double speed, Sums& sums) {
      const test::ToyClass toy(mixture(speed, true), plan_of(1));
      sums = sums_of(toy);
      return toy.steady("decoder-experts", BlockPass::Joined).steady.length;
    };
    Sums sums;
    const double fast = length(100.0, sums);
    CHECK(sums.messages < 0.5 * sums.kernels);
    CHECK(fast == doctest::Approx(sums.kernels.value()).epsilon(0.02));
    const double slow = length(0.001, sums);
    CHECK(sums.messages > 20.0 * sums.kernels);
    CHECK(slow == doctest::Approx(sums.messages.value()).epsilon(0.02));
  }

  TEST_CASE("side by side: weight gradients that run later hide exchanges, and are all there") {
    const auto later = [](double speed) {
      return test::with_framework(mixture(speed, true), [](Framework& framework) {
        framework.delays_weight_gradients = true;
      });
    };
    for (const double speed : {0.01, 0.1, 0.2, 0.3, 0.5, 1.0, 100.0}) {
      CAPTURE(speed);
      const test::ToyClass toy(later(speed), plan_of(1));
      const test::ToyClass plain(mixture(speed, true), plan_of(1));
      const Sums sums = sums_of(toy);
      const double length = toy.steady("decoder-experts", BlockPass::Joined).steady.length;
      const double at_once = plain.steady("decoder-experts", BlockPass::Joined).steady.length;
      CHECK(length >= sums.kernels.value() * (1.0 - 1e-9));
      CHECK(length >= sums.messages.value() * (1.0 - 1e-9));
      CHECK(length <= at_once * (1.0 + 1e-9));
    }
    // Where exchanges are about as long as kernels, some of them is no longer waited for.
    const test::ToyClass toy(later(0.2), plan_of(1));
    const test::ToyClass plain(mixture(0.2, true), plan_of(1));
    CHECK(toy.steady("decoder-experts", BlockPass::Joined).steady.length <
          0.98 * plain.steady("decoder-experts", BlockPass::Joined).steady.length);
    // A backward by itself does not change.
    CHECK(toy.steady("decoder-experts", BlockPass::Backward).steady.length ==
          plain.steady("decoder-experts", BlockPass::Backward).steady.length);
  }

  TEST_CASE("a program of both halves sends every message once") {
    const test::ToyClass toy(mixture(1.0, true), plan_of(1));
    const auto both = toy.steady("decoder-experts", BlockPass::Joined).steady.exposed.size();
    const auto messages = toy.profile("decoder-experts").passes.size();
    CHECK(both > messages);
    CHECK(messages == 6);  // tokens, their weights, back; gradients of each
  }

  TEST_CASE("a profile made for an order in pairs is the same whichever was made before") {
    const Problem problem = mixture(0.3, true);
    const PlanEvaluator evaluator(problem);
    const auto workspace = PlanEvaluator::make_workspace();
    const PlanDegrees pairs = plan_of(2);
    PlanDegrees apart = pairs;
    apart.schedule = kDefaultSchedule;
    const PlanEvaluator fresh(problem);
    const auto own = fresh.profile(pairs);
    const Estimate expected = fresh.simulate(*own, pairs, *workspace);
    static_cast<void>(evaluator.profile(apart));
    CHECK(evaluator.simulate(*evaluator.profile(pairs), pairs, *workspace) == expected);
    // The bound is below the price, as for any order.
    BoundLadder ladder(evaluator, *workspace);
    CHECK(ladder.bound(*own, pairs).step_time <= expected.step.total());
    CHECK(ladder.bound(Rung::Passes, pairs).step_time <= expected.step.total());
    CHECK(ladder.bound(Rung::Placement, pairs).step_time <= expected.step.total());
  }

  TEST_CASE("a step gains by pairs what they hide, and its parts still sum to it") {
    const auto priced = [](bool joined) {
      const Problem problem = mixture(0.1, joined);
      const PlanEvaluator evaluator(problem);
      const auto workspace = PlanEvaluator::make_workspace();
      const PlanDegrees plan = plan_of(2);
      return evaluator.simulate(*evaluator.profile(plan), plan, *workspace);
    };
    const auto apart = priced(false);
    const auto beside = priced(true);
    constexpr auto kExpert = static_cast<std::size_t>(Purpose::Expert);
    const Seconds gain = apart.step.total() - beside.step.total();
    CHECK(gain > Seconds(0));
    CHECK(beside.step.exposed[kExpert] < apart.step.exposed[kExpert]);
    CHECK(beside.step.compute == apart.step.compute);
    // Never more than all that waited.
    CHECK(gain <= apart.step.exposed[kExpert] + apart.step.bubble);
  }
}

}  // namespace
}  // namespace plansearch::joined_pass_test
