// SPDX-License-Identifier: Apache-2.0
// Utilisation by the formulas of the field. The toy network: l = 8, h = 1024, s = 512, V = 51200;
// one forward pass of a sequence is 24 s l h^2 (products), 4 s^2 l h (s + 1) / (2 s) (causal
// attention) and 2 s h V (logits).
#include "plansearch/plan_report.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "plansearch/transformer_builder.hpp"
#include "support/toy_class.hpp"

namespace plansearch::plan_report_test {
namespace {

constexpr double kS = 512, kL = 8, kH = 1024, kV = 51200;
constexpr double kLayers = 24 * kS * kL * kH * kH;
constexpr double kAttention = 4 * kS * kS * kL * kH * (kS + 1) / (2 * kS);
constexpr double kLogits = 2 * kS * kH * kV;
constexpr double kForward = kLayers + kAttention + kLogits;

PlanReport report_of(const Problem& problem, Recompute recompute) {
  const PlanEvaluator evaluator(problem);
  PlanDegrees plan;
  plan.tensor_out = 2;
  plan.data = 4;
  plan.pipeline = 2;
  plan.micro_batches = 8;
  plan.recompute = recompute;
  const auto workspace = PlanEvaluator::make_workspace();
  const Estimate estimate = evaluator.estimate(*evaluator.profile(plan), plan, *workspace);
  return report_plan(evaluator, plan, estimate);
}

TEST_SUITE("unit") {
  TEST_CASE("model FLOPs are three forward passes over the dense bf16 peak") {
    const PlanReport report = report_of(test::toy_problem(), Recompute::None);
    const double rate = 3 * 32 * kForward / 16 / report.estimate.step.total().value();
    CHECK(report.model_rate_per_gpu.value() == doctest::Approx(rate).epsilon(1e-12));
    CHECK(report.mfu == doctest::Approx(rate / 312e12).epsilon(1e-12));
    CHECK(report.hfu == doctest::Approx(report.mfu).epsilon(1e-12));
    CHECK(report.tokens_per_s ==
          doctest::Approx(32 * 512 / report.estimate.step.total().value()).epsilon(1e-12));
  }

  TEST_CASE("full recompute adds the forward pass of the layers, not of the logits") {
    const PlanReport report = report_of(test::toy_problem(), Recompute::Full);
    CHECK(report.hfu / report.mfu ==
          doctest::Approx(1 + (kLayers + kAttention) / (3 * kForward)).epsilon(1e-12));
  }

  TEST_CASE("selective recompute adds the attention core where its scores are kept") {
    Problem problem = test::toy_problem();
    problem.network = std::make_shared<const Network>(
        build_network(*problem.model, {.attention = AttentionKind::Unfused}));
    const PlanReport report = report_of(problem, Recompute::Selective);
    CHECK(report.hfu / report.mfu ==
          doctest::Approx(1 + kAttention / (3 * kForward)).epsilon(1e-12));
  }

  TEST_CASE("the interval is no narrower than the framework's 5 % and no wider than all errors") {
    // Framework 0.05; nobody measured the toy's kernels (0.12 / 2), links and network (0.12 each);
    // shares of the step are at most 1: sigma <= sqrt(0.05^2 + 0.06^2 + 0.12^2) = 0.1432.
    const PlanReport report = report_of(test::toy_problem(), Recompute::None);
    const Seconds step = report.estimate.step.total();
    CHECK(report.p10 / step < std::exp(-1.2815516 * 0.05));
    CHECK(report.p90 / step > std::exp(1.2815516 * 0.05));
    CHECK(report.p10 / step > std::exp(-1.2815516 * 0.1432));
    CHECK(report.p90 / step < std::exp(1.2815516 * 0.1432));
  }
}

}  // namespace
}  // namespace plansearch::plan_report_test
