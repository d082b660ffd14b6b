// SPDX-License-Identifier: Apache-2.0
// Beliefs behind trials by closed forms and by draws, and which plans are tried.
#include "measure/tune/trial_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>

namespace plansearch {
namespace {

constexpr double kLevel = 0.2;
constexpr TrialErrors kErrors{.level = kLevel};

TrialPlan plan_of(double compute, double exposed, int tensor) {
  TrialPlan plan;
  plan.step.compute = Seconds(compute);
  plan.step.exposed.front() = Seconds(exposed);
  plan.degrees.tensor_out = tensor;
  return plan;
}

/// By hand: compute 0.05, exposed 0.20, of degrees 0.1 halved for each that differs, own 0.02.
double covariance(const TrialPlan& a, const TrialPlan& b, bool same) {
  const auto share = [](const TrialPlan& plan) {
    return plan.step.compute.value() / plan.step.total().value();
  };
  const double apart = a.degrees.tensor_out == b.degrees.tensor_out ? 0.0 : 1.0;
  return kLevel * kLevel + 0.0025 * share(a) * share(b) +
         0.04 * (1.0 - share(a)) * (1.0 - share(b)) + 0.01 * std::pow(0.5, apart) +
         (same ? 0.0004 : 0.0);
}

double normal_below(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

}  // namespace

TEST_SUITE("tune") {
  TEST_CASE("a trial moves other plans by their covariance with it") {
    const TrialPlan a = plan_of(9.0, 1.0, 1);
    const TrialPlan b = plan_of(8.0, 3.0, 2);
    TrialBeliefs beliefs({a, b}, kErrors);
    CHECK(beliefs.deviation(0) == doctest::Approx(std::sqrt(covariance(a, a, true))));
    const double variance = covariance(a, a, true) + 0.0001;  // and noise
    const double both = covariance(a, b, false);
    beliefs.see(0, Seconds(11.0));
    CHECK(beliefs.expected(0).value() == doctest::Approx(11.0));
    CHECK(beliefs.expected(1).value() ==
          doctest::Approx(11.0 * std::exp(both / variance * std::log(1.1))));
    CHECK(beliefs.deviation(1) ==
          doctest::Approx(std::sqrt(covariance(b, b, true) - both * both / variance)));
    CHECK(beliefs.deviation(0) == 0.0);
  }

  TEST_CASE("what is believed of a step of one part is the factor of the part") {
    TrialPlan messages = plan_of(0.0, 1.0, 4);
    TrialBeliefs beliefs({plan_of(9.0, 1.0, 1), plan_of(5.0, 5.0, 1), messages},
                         TrialErrors{.level = kLevel, .of_degrees = 0.0, .own = 0.0});
    beliefs.see(0, Seconds(10.4));
    beliefs.see(1, Seconds(12.0));  // both: messages take 1.4 times as long as predicted
    CHECK(beliefs.expected(2).value() == doctest::Approx(1.4).epsilon(0.07));
  }

  TEST_CASE("a trial that is far off says less about others") {
    const std::vector<TrialPlan> plans{plan_of(9.0, 1.0, 1), plan_of(8.0, 3.0, 2)};
    TrialBeliefs near(plans, kErrors);
    TrialBeliefs far(plans, kErrors);
    near.see(0, Seconds(11.0));
    far.see(0, Seconds(1000.0));
    CHECK(far.expected(0).value() == doctest::Approx(1000.0));
    CHECK(far.deviation(1) > near.deviation(1));
    CHECK(far.expected(1).value() < 11.0 * std::exp(3.0 * far.deviation(1)));
  }

  TEST_CASE("the gain of a trial of one of two plans is that of a normal difference") {
    const TrialPlan a = plan_of(9.0, 1.0, 1);
    const TrialPlan b = plan_of(7.0, 3.5, 2);
    const TrialBeliefs beliefs({a, b}, kErrors);
    const double noisy = std::sqrt(covariance(b, b, true) + 0.0001);
    const double slope = std::abs(covariance(b, b, true) - covariance(a, b, false)) / noisy;
    const double z = -std::log(10.5 / 10.0) / slope;
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi);
    CHECK(beliefs.gain(1) == doctest::Approx(slope * (density + z * normal_below(z))));
  }

  TEST_CASE("the gain among many plans and the chance to be best are those of draws") {
    std::vector<TrialPlan> plans;
    for (int i = 0; i < 6; ++i) plans.push_back(plan_of(9.0 - 0.2 * i, 1.0 + 0.25 * i, 1 + i % 3));
    const TrialBeliefs beliefs(plans, kErrors);
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    constexpr int kDraws = 200'000;
    const std::size_t tried = 3;
    const double noisy = std::sqrt(covariance(plans[3], plans[3], true) + 0.0001);
    double saved = 0.0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const double z = normal(random);
      double least = 1e9;
      for (std::size_t i = 0; i < plans.size(); ++i) {
        const double moved = covariance(plans[i], plans[tried], i == tried) / noisy * z;
        least = std::min(least, std::log(plans[i].step.total().value()) + moved);
      }
      saved += std::log(plans[0].step.total().value()) - least;
    }
    CHECK(beliefs.gain(tried) == doctest::Approx(saved / kDraws).epsilon(0.02));
    double sum = 0.0;
    for (std::size_t i = 0; i < plans.size(); ++i) sum += beliefs.is_best(i, 0.0);
    CHECK(sum == doctest::Approx(1.0));
    CHECK(beliefs.is_best(0, 0.02) > beliefs.is_best(0, 0.0));
  }

  TEST_CASE("of two plans the better one is best with the probability of a normal difference") {
    const TrialPlan a = plan_of(9.0, 1.0, 1);
    const TrialPlan b = plan_of(7.0, 3.5, 2);
    const double variance =
        covariance(a, a, true) + covariance(b, b, true) - 2.0 * covariance(a, b, false);
    CHECK(TrialBeliefs({a, b}, kErrors).is_best(0, 0.0) ==
          doctest::Approx(normal_below(std::log(1.05) / std::sqrt(variance))).epsilon(0.03));
  }

  TEST_CASE("the risk of a plan behind one that ran out is that of a bivariate normal") {
    std::vector<TrialPlan> plans(3, plan_of(9.0, 1.0, 1));
    plans[0].risk = 0.1;
    plans[1].risk = 0.02;
    TrialBeliefs beliefs(plans, kErrors);
    beliefs.ran_out(0);
    // Deviations of which a half is shared, above 1.2816 and 2.0537, by draws.
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    int first = 0;
    int both = 0;
    for (int draw = 0; draw < 2'000'000; ++draw) {
      const double shared = normal(random);
      const bool out = (shared + normal(random)) / std::numbers::sqrt2 > 1.2816;
      first += out ? 1 : 0;
      both += out && (shared + normal(random)) / std::numbers::sqrt2 > 2.0537 ? 1 : 0;
    }
    CHECK(beliefs.risk(0) == 1.0);
    CHECK(beliefs.risk(1) == doctest::Approx(static_cast<double>(both) / first).epsilon(0.03));
    beliefs.see(1, Seconds(9.0));
    CHECK(beliefs.risk(1) == 0.0);
  }

  TEST_CASE("a plan that may not run costs its risk, and a trial of it may fail") {
    std::vector<TrialPlan> plans{plan_of(9.0, 1.0, 1), plan_of(9.5, 1.0, 1)};
    plans[0].risk = 0.3;
    TrialBeliefs beliefs(plans,
                         TrialErrors{.level = kLevel, .of_degrees = 0.0, .own = 0.0, .noise = 0.0});
    CHECK(beliefs.leader() == 1);
    CHECK(beliefs.fastest() == 0);
    // Their steps differ for sure: with a chance of 0.7 the trial saves the difference.
    CHECK(beliefs.gain(0) == doctest::Approx(0.7 * std::log(10.5 / 10.0)).epsilon(0.01));
    CHECK(choose_trials(beliefs, {true, true}, 1) == std::vector<std::size_t>{0});
    beliefs.ran_out(0);
    CHECK(beliefs.leader() == 1);
    CHECK(beliefs.is_best(1, 0.0) == 1.0);
    beliefs.ran_out(1);
    CHECK(beliefs.risk(beliefs.leader()) == 1.0);
  }

  TEST_CASE("trials begin with the leader, differ, and end where no plan is open") {
    std::vector<TrialPlan> plans;
    for (int i = 0; i < 5; ++i) plans.push_back(plan_of(9.0 + 0.1 * i, 1.0, 1 + i));
    std::swap(plans[0], plans[2]);
    const TrialBeliefs beliefs(plans, kErrors);
    const auto chosen = choose_trials(beliefs, std::vector<bool>(5, true), 3);
    REQUIRE(chosen.size() == 3);
    CHECK(chosen.front() == 2);
    std::vector<std::size_t> all = choose_trials(beliefs, std::vector<bool>(5, true), 9);
    std::ranges::sort(all);
    CHECK(all == std::vector<std::size_t>{0, 1, 2, 3, 4});
    CHECK(choose_trials(beliefs, {false, true, false, false, false}, 2) ==
          std::vector<std::size_t>{1});
    CHECK(choose_trials(beliefs, std::vector<bool>(5, false), 2).empty());
  }
}

}  // namespace plansearch
