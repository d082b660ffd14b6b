// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "plansearch/plan_report.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::explain_test {

TEST_SUITE("unit") {
  TEST_CASE("the three largest parts, largest first, nothing below one percent") {
    const PlanEvaluator evaluator(test::toy_problem());
    PlanDegrees plan;
    plan.pipeline = 4;
    plan.data = 4;
    plan.micro_batches = 8;
    Estimate estimate;
    estimate.step.compute = Seconds(50);
    estimate.step.bubble = Seconds(30);
    estimate.step.exposed[static_cast<std::size_t>(Purpose::Data)] = Seconds(19.2);
    estimate.step.host = Seconds(0.8);
    using Lines = std::vector<std::string>;
    CHECK(explain(evaluator, plan, estimate) == Lines{"kernels 50 %",
                                                      "bubble of 4 stages, 8 micro-batches 30 %",
                                                      "exposed data communication 19 %"});
    estimate.step.optimizer = Seconds(100);
    CHECK(explain(evaluator, plan, estimate) ==
          Lines{"optimizer 50 %", "kernels 25 %", "bubble of 4 stages, 8 micro-batches 15 %"});
  }

  TEST_CASE("memory that is nearly full is said") {
    const PlanEvaluator evaluator(test::toy_problem());
    Estimate estimate;
    estimate.step.compute = Seconds(1);
    estimate.memory.parameters = evaluator.memory_limit() * 0.89;
    CHECK(explain(evaluator, {}, estimate).size() == 1);
    estimate.memory.parameters = evaluator.memory_limit() * 0.95;
    CHECK(explain(evaluator, {}, estimate).back() == "memory 95 % full");
  }
}

}  // namespace plansearch::explain_test
