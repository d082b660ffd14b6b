// SPDX-License-Identifier: Apache-2.0
#include "evaluate/answer/interval.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "support/toy_problem.hpp"

namespace plansearch::interval_test {
namespace {

/// Data parallel over `ranks` GPUs; half of the step computes, half reduces gradients.
RelativeInterval half_and_half(const ErrorModel& model, int ranks) {
  StepTimeBreakdown step;
  step.compute = Seconds(1.0);
  step.exposed[static_cast<std::size_t>(Purpose::Data)] = Seconds(1.0);
  if (ranks > model.accelerators_per_node) step.between_nodes = Seconds(1.0);
  return relative_interval(model, step, ranks);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a tenth of log-normal errors lies below p10, a tenth above p90") {
    // The normal quantile of 0.9 is 1.28155: exp(-0.128155) = 0.87972, exp(0.128155) = 1.13673.
    const RelativeInterval interval =
        half_and_half({.framework = 0.1, .accelerators_per_node = 8}, 8);
    CHECK(interval.p10 == doctest::Approx(0.87972).epsilon(1e-5));
    CHECK(interval.p90 == doctest::Approx(1.13673).epsilon(1e-5));
    std::mt19937 engine(3);
    std::normal_distribution<double> normal(0.0, 0.1);
    int below = 0, above = 0;
    for (int i = 0; i < 100'000; ++i) {
      const double error = std::exp(normal(engine));
      below += error < interval.p10;
      above += error > interval.p90;
    }
    CHECK(below == doctest::Approx(10'000).epsilon(0.05));
    CHECK(above == doctest::Approx(10'000).epsilon(0.05));
  }

  TEST_CASE("a what-if: errors count by how much more they weigh in one of two steps") {
    // Computing and reducing 1 s each; then reducing in a half: shares 1/2, 1/2 and 2/3, 1/3.
    // Kernels 0.3 (2/3 - 1/2) = 0.05, links 0.72 (1/3 - 1/2) = -0.12: 0.13 in quadrature.
    StepTimeBreakdown slow, fast;
    slow.compute = fast.compute = Seconds(1.0);
    slow.exposed[static_cast<std::size_t>(Purpose::Data)] = Seconds(1.0);
    fast.exposed[static_cast<std::size_t>(Purpose::Data)] = Seconds(0.5);
    const ErrorModel model{.framework = 5.0, .kernels = 0.3, .links = 0.72, .site = 5.0};
    CHECK(what_if_sigma(model, slow, fast) == doctest::Approx(0.13).epsilon(1e-9));
    CHECK(what_if_sigma(model, fast, slow) == doctest::Approx(0.13).epsilon(1e-9));
    CHECK(what_if_sigma(model, slow, slow) == 0.0);
    // Every step of a machine that is wrong by these errors: the ratio moves by the same spread.
    std::mt19937 engine(5);
    std::normal_distribution<double> kernels(0.0, 0.03), links(0.0, 0.072);
    double squares = 0.0;
    constexpr int kDraws = 100'000;
    for (int i = 0; i < kDraws; ++i) {
      const double a = std::exp(kernels(engine)), b = std::exp(links(engine));
      const double change = std::log((a + 0.5 * b) / (a + b)) - std::log(0.75);
      squares += change * change;
    }
    CHECK(std::sqrt(squares / kDraws) == doctest::Approx(0.013).epsilon(0.02));
  }

  TEST_CASE("no error, no interval") {
    const RelativeInterval interval = half_and_half({.accelerators_per_node = 8}, 8);
    CHECK(interval.p10 == 1.0);
    CHECK(interval.p90 == 1.0);
  }

  TEST_CASE("errors weigh by their share of the step and add in quadrature") {
    // Shares of one half: sqrt((0.3/2)^2 + (0.4/2)^2) = 0.25, exp(1.28155 x 0.25) = 1.37768.
    const ErrorModel model{
        .kernels = 0.3, .links = 0.4, .network = 9.0, .accelerators_per_node = 8};
    CHECK(half_and_half(model, 8).p90 == doctest::Approx(1.37768).epsilon(1e-5));
  }

  TEST_CASE("what runs on a borrowed curve was in no run that a scatter was seen in") {
    // Half of the step computes: (0.6/2)^2 beside a scatter of 0.4: 0.5, exp(1.28155 x 0.5).
    const ErrorModel model{.borrowed = 0.6, .scatter = 0.4, .accelerators_per_node = 8};
    CHECK(half_and_half(model, 8).p90 == doctest::Approx(1.89796).epsilon(1e-5));
  }

  TEST_CASE("kernels that run again are as uncertain as the first time") {
    // A quarter computes, a quarter repeats it, half is exposed: kernels weigh one half.
    StepTimeBreakdown step;
    step.compute = step.recompute = Seconds(0.5);
    step.exposed[static_cast<std::size_t>(Purpose::Data)] = Seconds(1.0);
    const ErrorModel model{.kernels = 0.3, .links = 0.4, .accelerators_per_node = 8};
    CHECK(relative_interval(model, step, 8).p90 == doctest::Approx(1.37768).epsilon(1e-5));
  }

  TEST_CASE("a site adds what is not known of its factor; its scatter holds the other errors") {
    // sqrt(0.1^2 + 0.24^2) = 0.26: exp(1.28155 x 0.26) = 1.39543. A scatter of 0.1 is the
    // framework's 0.1; one of 0.3 takes its place.
    ErrorModel model{.framework = 0.1, .site = 0.24, .scatter = 0.1, .accelerators_per_node = 8};
    CHECK(half_and_half(model, 8).p90 == doctest::Approx(1.39543).epsilon(1e-4));
    model.site = 0.0;
    model.scatter = 0.3;
    CHECK(half_and_half(model, 8).p90 == doctest::Approx(1.46883).epsilon(1e-4));
  }

  TEST_CASE("beyond a node the network counts, and stragglers move p90 alone") {
    // 32 GPUs are 4 nodes, two doublings: sqrt((1.28155 x 0.2/2)^2 + (2 x 0.1)^2) = 0.237537.
    const ErrorModel model{
        .links = 9.0, .network = 0.2, .straggler = 0.1, .accelerators_per_node = 8};
    const RelativeInterval interval = half_and_half(model, 32);
    CHECK(interval.p90 == doctest::Approx(1.26812).epsilon(1e-5));
    CHECK(interval.p10 == doctest::Approx(std::exp(-0.128155)).epsilon(1e-5));
  }

  TEST_CASE("kernels of another architecture are wrong alike, until they are measured") {
    Problem problem = test::toy_problem();
    Framework compared = *problem.framework;
    compared.validation = "three steps";
    problem.framework = std::make_shared<const Framework>(compared);
    Cluster cluster = *problem.cluster;
    cluster.foreign_sigma = 0.2;
    const auto with = [&](bool foreign, std::optional<Residual> residual) {
      cluster.accelerator.foreign_kernels = foreign;
      for (auto& curve : cluster.accelerator.kernels.matmul) {
        if (curve) curve->residual = residual;
      }
      problem.cluster = std::make_shared<const Cluster>(cluster);
      return error_model(problem).borrowed;
    };
    CHECK(with(false, std::nullopt) == 0.0);
    CHECK(with(true, Residual{-0.05, 0.05}) == 0.0);
    CHECK(with(true, std::nullopt) == doctest::Approx(0.2));

    // All of a step computes: sqrt(0.05^2 + 0.06^2 + 0.2^2) wide, sqrt(0.05^2 + 0.06^2) measured.
    StepTimeBreakdown step;
    step.compute = Seconds(1.0);
    const Narrowing best = narrowing(problem, step);
    CHECK(best.what.find("matrix products") == 0);
    CHECK(best.how == "plansearch calibrate --only gemm");
    CHECK(best.before ==
          doctest::Approx(std::exp(2.0 * 1.28155 * std::sqrt(0.0461))).epsilon(1e-4));
    CHECK(best.after == doctest::Approx(std::exp(2.0 * 1.28155 * std::sqrt(0.0061))).epsilon(1e-4));
  }

  TEST_CASE("a framework that no run was compared with is less certain") {
    Problem problem = test::toy_problem();
    Framework framework = *problem.framework;
    framework.constants.sigma = 0.05;
    framework.validation = "three steps";
    problem.framework = std::make_shared<const Framework>(framework);
    CHECK(error_model(problem).framework == doctest::Approx(0.05));
    framework.validation.clear();
    problem.framework = std::make_shared<const Framework>(framework);
    CHECK(error_model(problem).framework == doctest::Approx(0.13));  // 5, 12, 13
  }

  TEST_CASE("products of another chip are less certain, those of another architecture least") {
    Problem problem = test::toy_problem();
    Cluster cluster = *problem.cluster;
    cluster.unmeasured_sigma = 0.1;
    for (auto& curve : cluster.accelerator.kernels.matmul) {
      if (curve) curve->residual.reset();
    }
    const auto borrowed = [&](Evidence evidence) {
      cluster.accelerator.provenance = {{"kernels.matmul", {evidence, "a table"}}};
      problem.cluster = std::make_shared<const Cluster>(cluster);
      return error_model(problem).borrowed;
    };
    CHECK(borrowed(Evidence::Measured) == 0.0);
    CHECK(borrowed(Evidence::Assumed) == doctest::Approx(0.1));
  }

  TEST_CASE("mixtures of experts are less certain") {
    Problem dense = test::toy_problem();
    Problem mixed = test::toy_problem({.experts = 8});
    Framework framework = *dense.framework;
    framework.constants.sigma_experts = 0.2;
    dense.framework = mixed.framework = std::make_shared<const Framework>(framework);
    CHECK(error_model(dense).experts == 0.0);
    // Experts do part of the FLOPs: attention, router and head the rest.
    CHECK(error_model(mixed).experts > 0.02);
    CHECK(error_model(mixed).experts < 0.2);
  }
}

}  // namespace plansearch::interval_test
