// SPDX-License-Identifier: Apache-2.0
// The operators of a stage are all there is in a micro-batch where nothing hides and nothing is
// sharded: their rows sum to its forward and backward.
#include <doctest/doctest.h>

#include "evaluate/answer/plan_details.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_class.hpp"

namespace plansearch::operator_report_test {
namespace {

TEST_SUITE("unit") {
  TEST_CASE("the operators of a stage sum to its passes") {
    const PlanEvaluator evaluator(
        test::with_framework(test::toy_problem({}), [](Framework& framework) {
          framework.overlap.fill({});
          framework.constants.host_launch = Seconds(0);  // a slow host would add to the passes
          framework.constants.collective_skew = Seconds(0);
        }));
    PlanDegrees plan;
    plan.tensor_out = 2;
    plan.pipeline = 2;
    plan.data = 4;
    plan.micro_batches = 8;
    REQUIRE_FALSE(evaluator.legality(plan));
    const auto workspace = PlanEvaluator::make_workspace();
    const auto profile = evaluator.profile(plan);
    const auto operators = [&](int stage) {
      const PlanViews& views = evaluator.views();
      return views.with_view(*profile, plan, *workspace, [&](const PricingInput& view) {
        return operators_at(*views.profiles, view, stage);
      });
    };
    const PlanDetails details = plan_details(evaluator, plan, *workspace);
    for (const StageReport& stage : details.stages) {
      Seconds sum;
      double layers = 0.0;
      for (const OperatorReport& o : operators(stage.stage)) {
        sum += o.copies * o.total();
        if (o.name == "attention") layers += o.copies;
      }
      CHECK(sum.value() == doctest::Approx((stage.forward + stage.backward).value()).epsilon(1e-9));
      CHECK(layers == 4);  // of eight on two stages
    }
  }
}

}  // namespace
}  // namespace plansearch::operator_report_test
