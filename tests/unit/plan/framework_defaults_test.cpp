// SPDX-License-Identifier: Apache-2.0
#include "plan/degrees/framework_defaults.hpp"

#include <doctest/doctest.h>

#include "support/toy_problem.hpp"

namespace plansearch::framework_defaults_test {
namespace {

/// ZeRO-3 over data, tokens spread over tensor ranks, full recomputation.
Framework sharding() {
  Framework framework = test::toy_framework();
  framework.rules.clear();
  framework.natural_degrees = {{"zero", 3}, {"sp", 1}, {"recompute", 2}};
  return framework;
}

PlanDegrees sixteen() {
  PlanDegrees plan;
  plan.data = 8;
  plan.tensor_out = 2;
  plan.micro_batches = 4;
  return plan;
}

PlanDegrees legal(const PlanDegrees& plan, const PinnedDegrees& chosen,
                  const Framework& framework) {
  const Problem problem = test::toy_problem();
  return with_legal_defaults(plan, chosen, *problem.network, framework, problem.precision);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("without accumulation a replica's share is one micro-batch a stage") {
    Framework framework = sharding();
    PlanDegrees plan = sixteen();  // 8 replicas
    CHECK(usual_micro_batch(plan, 64, framework) == 1);
    framework.accumulates = false;
    CHECK(usual_micro_batch(plan, 64, framework) == 8);
    plan.pipeline = 2;
    CHECK(usual_micro_batch(plan, 64, framework) == 4);
    CHECK(usual_micro_batch(plan, 72, framework) == 1);  // 9 sequences a replica, 2 stages
  }

  TEST_CASE("what nobody chose is the framework's default") {
    const PlanDegrees plan = with_defaults(sixteen(), {}, sharding());
    CHECK(plan.zero == ZeroStage::Parameters);
    CHECK(plan.sequence_parallel == SequenceParallel::On);
    CHECK(plan.recompute == Recompute::Full);
    CHECK(legal(sixteen(), {}, sharding()) == plan);
    const PinnedDegrees none{{Degree::Zero, 0}, {Degree::Recompute, 0}};
    const PlanDegrees chosen = with_defaults(sixteen(), none, sharding());
    CHECK(chosen.zero == ZeroStage::None);
    CHECK(chosen.recompute == Recompute::None);
  }

  TEST_CASE("without tensor ranks there is no sequence parallelism, without data ranks no ZeRO") {
    PlanDegrees plan = sixteen();
    plan.tensor_out = 1;
    CHECK(with_defaults(plan, {}, sharding()).sequence_parallel == SequenceParallel::Off);
    plan.data = 1;
    CHECK(legal(plan, {}, sharding()).zero == ZeroStage::None);
  }

  TEST_CASE("where a default is illegal the nearest legal one is taken, a choice never changed") {
    Framework framework = sharding();
    framework.rules = {{"max-zero-with-pipeline", 1, "no"}, {"no-sequence-parallel", 0, "no"}};
    PlanDegrees plan = sixteen();
    plan.data = 4;
    plan.pipeline = 2;
    const PlanDegrees fitted = legal(plan, {}, framework);
    CHECK(fitted.zero == ZeroStage::Optimizer);  // the next lower stage, not none
    CHECK(fitted.sequence_parallel == SequenceParallel::Off);
    CHECK(fitted.recompute == Recompute::Full);
    // ZeRO-3 was asked for: it stays, and is refused elsewhere.
    plan.zero = ZeroStage::Parameters;
    CHECK(legal(plan, {{Degree::Zero, 3}}, framework).zero == ZeroStage::Parameters);
    framework.rules = {{"min-zero", 2, "no"}};
    framework.natural_degrees["zero"] = 0;
    CHECK(legal(sixteen(), {}, framework).zero == ZeroStage::Gradients);
  }
}

}  // namespace plansearch::framework_defaults_test
