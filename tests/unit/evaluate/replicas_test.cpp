// SPDX-License-Identifier: Apache-2.0
// Two replicas of the network in one pipeline: what a device holds, computes and sums. Expected
// values follow from the plan with one replica: device d holds stage d of both directions.
#include <doctest/doctest.h>

#include <algorithm>

#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"

namespace plansearch::replicas_test {
namespace {

/// Nothing but layers, so that all stages are equal.
Problem layers_only(const PlanDegrees& plan) {
  test::ToyOptions options;
  options.global_batch = plan.global_batch();
  options.gpus = plan.devices();
  options.tied = false;
  const Problem layers = test::with_network(test::toy_problem(options), [](Network& network) {
    std::erase_if(network.order, [&](const BlockRun& run) {
      return network.blocks[run.block].kind != BlockKind::Decoder;
    });
  });
  return test::with_framework(layers,
                              [](Framework& framework) { framework.schedules = schedule_names(); });
}

struct Priced {
  Estimate estimate;
  PlanDetails details;
};

Priced price(PlanDegrees plan, const char* schedule) {
  plan.schedule = *find_schedule(schedule);
  const PlanEvaluator evaluator(layers_only(plan));
  const auto workspace = PlanEvaluator::make_workspace();
  const auto expanded = evaluator.expand(plan);
  if (const auto* bad = std::get_if<Infeasible>(&expanded)) FAIL(bad->detail);
  const auto& made = std::get<ParallelPlan>(expanded);
  return {evaluator.simulate(*evaluator.profile(plan), plan, *workspace),
          plan_details(evaluator, made)};
}

Bytes summed_gradients(const PlanDetails& details, int holders) {
  Bytes bytes;
  for (const PricedCommunication& line : details.communication) {
    const Communication& what = line.communication;
    if (what.subject == Subject::Gradient && what.group_size == holders &&
        what.axes.contains(Axis::Pipeline)) {
      bytes += line.bytes;
    }
  }
  return bytes;
}

TEST_SUITE("evaluate") {
  TEST_CASE("a replica more: weights twice, the same work, gradients summed between two holders") {
    for (const char* schedule : {"chimera", "dualpipe"}) {
      PlanDegrees plan;
      plan.pipeline = 4;
      plan.micro_batches = 16;
      const Priced plain = price(plan, "1f1b");
      const Priced both = price(plan, schedule);
      INFO(schedule);
      const auto twice = [](Bytes bytes) { return doctest::Approx(2.0 * bytes.value()); };
      CHECK(both.estimate.memory.parameters.value() == twice(plain.estimate.memory.parameters));
      CHECK(both.estimate.memory.optimizer.value() == twice(plain.estimate.memory.optimizer));
      // Half of the micro-batches through each of two stages.
      CHECK(both.estimate.step.compute.value() ==
            doctest::Approx(plain.estimate.step.compute.value()).epsilon(1e-9));
      // Both stages' gradients, as many bytes as the gradients that are kept.
      CHECK(summed_gradients(plain.details, 2) == Bytes(0));
      CHECK(summed_gradients(both.details, 2).value() ==
            doctest::Approx(both.estimate.memory.gradients.value()));
      CHECK(both.estimate.step.optimizer.value() ==
            doctest::Approx(2.0 * plain.estimate.step.optimizer.value()));
    }
  }
}

}  // namespace
}  // namespace plansearch::replicas_test
