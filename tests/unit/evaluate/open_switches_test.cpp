// SPDX-License-Identifier: Apache-2.0
#include "evaluate/answer/open_switches.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "plansearch/degree_table.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::open_switches_test {
namespace {

constexpr int kNone = static_cast<int>(Recompute::None);
constexpr int kFull = static_cast<int>(Recompute::Full);

const SwitchPriors kThree{{{Degree::Recompute, "f", "A", 2024, {{kNone, 3}, {kFull, 1}}},
                           {Degree::Recompute, "f", "B", 2026, {{kFull, 2}}},
                           {Degree::Recompute, "g", "C", 2025, {{kNone, 1}}}}};

/// The share below `ratio` of a distribution of log-normal parts.
double share_below(const std::vector<PossiblePlan>& plans, const ErrorModel& errors, int devices,
                   double ratio) {
  double below = 0.0;
  double all = 0.0;
  for (const PossiblePlan& plan : plans) {
    const RelativeInterval own = relative_interval(errors, plan.estimate.step, devices);
    const double median = plan.estimate.step.total() / plans.front().estimate.step.total();
    const double error = std::log(ratio / median);
    const double sigma = (error < 0.0 ? -std::log(own.p10) : std::log(own.p90)) / 1.2815515655;
    below += plan.odds * 0.5 * std::erfc(-error / sigma / std::sqrt(2.0));
    all += plan.odds;
  }
  return below / all;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a prior: sources by their years, all frameworks as half a source more") {
    // In 2026: weights A 1/3, B 1, C 1/2. Full in f: 1/3 x 1/4 + 1 = 13/12 of 4/3; everywhere 13/12
    // of 11/6 = 13/22. (13/12 + 13/44) / (4/3 + 1/2) = 91/121. None: (1/4 + 9/44) / (11/6) =
    // 30/121.
    CHECK(prior_share(kThree, Degree::Recompute, "f", 2026, kFull) ==
          doctest::Approx(91.0 / 121.0).epsilon(1e-9));
    CHECK(prior_share(kThree, Degree::Recompute, "f", 2026, kNone) ==
          doctest::Approx(30.0 / 121.0).epsilon(1e-9));
    // A framework that no source ran takes all others: 13/22.
    CHECK(prior_share(kThree, Degree::Recompute, "h", 2026, kFull) ==
          doctest::Approx(13.0 / 22.0).epsilon(1e-9));
    CHECK(prior_share(kThree, Degree::MicroBatch, "f", 2026, 1) == 0.0);
    CHECK(year_of(kThree, "A") == 2024);
    CHECK(year_of(kThree, "somebody else") == 2026);
  }

  TEST_CASE("what a question leaves out, and what a framework decides") {
    Framework framework = test::toy_framework();
    PinnedDegrees said;
    CHECK(open_switches(said, framework) ==
          std::vector<Degree>{Degree::Recompute, Degree::MicroBatch});
    said.pin(Degree::Recompute, kFull);
    CHECK(open_switches(said, framework) == std::vector<Degree>{Degree::MicroBatch});
    framework.accumulates = false;
    CHECK(open_switches(said, framework).empty());
  }

  TEST_CASE("a mixture: a tenth of what may be meant below p10, a tenth above p90") {
    const Problem problem = test::toy_problem();
    const PlanEvaluator evaluator(problem);
    const EvaluationWorkspacePtr workspace = PlanEvaluator::make_workspace();
    PlanDegrees plan;
    plan.data = 16;
    plan.micro_batches = 2;
    const std::vector<Degree> open{Degree::Recompute, Degree::MicroBatch};
    const SwitchPriors priors{{{Degree::Recompute, "x", "A", 2026, {{kNone, 3}, {kFull, 1}}},
                               {Degree::MicroBatch, "x", "A", 2026, {{1, 3}, {2, 2}, {64, 5}}}},
                              0.2};
    const Estimate own = evaluator.simulate(*evaluator.profile(plan), plan, *workspace);
    const auto plans = possible_plans(evaluator, {plan, own}, open, {priors, 2026}, *workspace);
    // None and full, micro-batches of 1 and 2: 64 sequences are not there.
    REQUIRE(plans.size() == 4);
    CHECK(plans.front().plan == plan);
    for (const PossiblePlan& possible : plans) {
      CHECK(possible.plan.micro_batch * possible.plan.micro_batches == 2);
      // A fifth runs what is assumed, four fifths what others state: 0.2 + 0.8 x 3/4 and 0.8 / 4;
      // 0.2 + 0.8 x 0.3 and 0.8 x 0.2.
      const double recompute = possible.plan.recompute == Recompute::Full ? 0.2 : 0.8;
      const double size = possible.plan.micro_batch == 2 ? 0.16 : 0.44;
      CHECK(possible.odds == doctest::Approx(recompute * size).epsilon(1e-3));
      const Estimate stated =
          evaluator.simulate(*evaluator.profile(possible.plan), possible.plan, *workspace);
      CHECK(possible.estimate.step.total() == stated.step.total());
    }
    const ErrorModel errors{.framework = 0.05, .site = 0.05};
    const RelativeInterval mixed = mixed_interval(plans, errors, 16);
    CHECK(share_below(plans, errors, 16, mixed.p10) == doctest::Approx(0.1).epsilon(1e-6));
    CHECK(share_below(plans, errors, 16, mixed.p90) == doctest::Approx(0.9).epsilon(1e-6));
    const RelativeInterval alone = relative_interval(errors, own.step, 16);
    CHECK(mixed.p90 / mixed.p10 > alone.p90 / alone.p10);

    // The switch whose statement narrows most stands first.
    const auto switches = open_switches_of(plans, open, errors, 16);
    REQUIRE(switches.size() == 2);
    CHECK(switches.front().stated <= switches.back().stated);
    CHECK(switches.front().stated < mixed.p90 / mixed.p10);
    const bool first = switches.front().degree == Degree::Recompute;
    const OpenSwitch& recompute = first ? switches.front() : switches.back();
    const OpenSwitch& size = first ? switches.back() : switches.front();
    CHECK(recompute.values.at(0).share == doctest::Approx(0.8).epsilon(1e-3));
    CHECK(recompute.values.at(1).ratio > 1.1);
    CHECK(size.values.at(1).share == doctest::Approx(0.16 / 0.6).epsilon(1e-3));
  }

  TEST_CASE("nothing is mixed where all is stated, or where no laboratory says it") {
    const PlanEvaluator evaluator(test::toy_problem());
    const EvaluationWorkspacePtr workspace = PlanEvaluator::make_workspace();
    PlanDegrees plan;
    plan.data = 16;
    plan.micro_batches = 2;
    const Estimate own = evaluator.simulate(*evaluator.profile(plan), plan, *workspace);
    const PossiblePlan assumed{plan, own};
    CHECK(possible_plans(evaluator, assumed, {}, {kThree, 2026}, *workspace).size() == 1);
    CHECK(possible_plans(evaluator, assumed, {Degree::MicroBatch}, {kThree, 2026}, *workspace)
              .size() == 1);
    const ErrorModel errors{.framework = 0.05};
    const RelativeInterval alone = relative_interval(errors, own.step, 16);
    CHECK(mixed_interval({assumed}, errors, 16).p90 == alone.p90);
  }
}

}  // namespace plansearch::open_switches_test
