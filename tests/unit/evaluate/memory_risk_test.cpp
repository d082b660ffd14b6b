// SPDX-License-Identifier: Apache-2.0
#include "evaluate/memory/memory_model.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include "plansearch/evaluator.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::memory_risk_test {
namespace {

constexpr MemoryError kError{1.02, 0.05, 0.10};
constexpr Bytes kLimit(80e9);
/// Deviations above which a normal variable lies one time in ten (any table of the distribution).
constexpr double kTenth = 1.2815515655446004;

TEST_SUITE("unit") {
  TEST_CASE("half of all plans need more than the median, one in ten more than its upper tenth") {
    const Bytes median = kLimit * (1.0 / 1.02);
    CHECK(risk_of_memory(kError, median, kLimit) == doctest::Approx(0.5));
    CHECK(risk_of_memory(kError, median * std::exp(-0.10 * kTenth), kLimit) ==
          doctest::Approx(0.1));
    CHECK(risk_of_memory(kError, median * std::exp(0.05 * kTenth), kLimit) == doctest::Approx(0.9));
    CHECK(risk_of_memory(kError, Bytes(0), kLimit) == 0.0);
    CHECK(risk_of_memory(kError, kLimit, Bytes(0)) == 1.0);
  }

  TEST_CASE("a prediction without error is a hard limit") {
    const MemoryError exact{};
    CHECK(risk_of_memory(exact, kLimit, kLimit) == 0.0);
    CHECK(risk_of_memory(exact, kLimit * 1.0001, kLimit) == 1.0);
    CHECK(peak_at_risk(exact, 0.1, kLimit) == kLimit);
  }

  TEST_CASE("a threshold on the risk is a threshold on predicted bytes") {
    CHECK(peak_at_risk(kError, 0.1, kLimit).value() ==
          doctest::Approx(80e9 / 1.02 * std::exp(-0.10 * kTenth)));
    CHECK(peak_at_risk(kError, 0.9, kLimit).value() ==
          doctest::Approx(80e9 / 1.02 * std::exp(0.05 * kTenth)));
    for (const double risk : {0.001, 0.1, 0.25, 0.5, 0.75, 0.999}) {
      const Bytes peak = peak_at_risk(kError, risk, kLimit);
      CHECK(risk_of_memory(kError, peak, kLimit) == doctest::Approx(risk));
    }
  }

  TEST_CASE("what is known to the byte has no error") {
    // 60 of 80 GB are weights from a file: 20 GB of room for a peak of 20 / 1.02 GB beside them.
    const Bytes certain(60e9);
    const Bytes rest(20e9 / 1.02);
    CHECK(risk_of_memory(kError, certain + rest, kLimit, certain) == doctest::Approx(0.5));
    const Bytes tenth = certain + rest * std::exp(-0.10 * kTenth);
    CHECK(risk_of_memory(kError, tenth, kLimit, certain) == doctest::Approx(0.1));
    CHECK(peak_at_risk(kError, 0.1, kLimit, certain).value() == doctest::Approx(tenth.value()));
    // The same peak with an error on all of it.
    CHECK(risk_of_memory(kError, tenth, kLimit) > 0.3);
    CHECK(risk_of_memory(kError, certain, kLimit, certain) == 0.0);
    CHECK(risk_of_memory(kError, Bytes(90e9), kLimit, Bytes(85e9)) == 1.0);
  }

  TEST_CASE("frozen weights are what is certain") {
    Problem problem = test::toy_problem({.gpus = 1, .global_batch = 8, .memory_gib = 1});
    auto frozen = std::make_shared<Network>(*problem.network);
    for (Block& block : frozen->blocks) {
      for (Parameter& parameter : block.parameters) parameter.trainable = Trainable::No;
    }
    const PlanEvaluator trained(problem);
    problem.network = frozen;
    const PlanEvaluator evaluator(problem);
    const PlanDegrees one;
    const Bytes limit = evaluator.memory_limit();
    const Bytes plan = limit * 0.9;
    CHECK(trained.memory_fit(one, plan) == MemoryFit::Tight);
    CHECK(evaluator.memory_risk(one, plan) < trained.memory_risk(one, plan));
    CHECK(trained.certain_memory(one) == Bytes(0));
    const Bytes certain = evaluator.certain_memory(one);
    CHECK(evaluator.memory_up_to(MemoryFit::Fits, certain) > trained.memory_up_to(MemoryFit::Fits));
    // Every device of data parallelism holds all of them, half where two share parameters.
    problem.gpus = 2;
    const PlanEvaluator two(problem);
    PlanDegrees replicated;
    replicated.data = 2;
    replicated.zero = ZeroStage::Optimizer;
    CHECK(two.certain_memory(replicated) == certain);
    CHECK(two.memory_risk(replicated, plan) == evaluator.memory_risk(one, plan));
    PlanDegrees sharded = replicated;
    sharded.zero = ZeroStage::Parameters;
    CHECK(two.certain_memory(sharded).value() == doctest::Approx(0.5 * certain.value()));
    PlanDegrees stages;
    stages.pipeline = 2;
    CHECK(two.certain_memory(stages).value() == doctest::Approx(0.5 * certain.value()));
  }

  TEST_CASE("verdicts follow the risk that is accepted; the reserve comes off capacity first") {
    Problem problem = test::toy_problem({});
    problem.memory_reserve = problem.cluster->accelerator.memory * 0.25;
    const PlanEvaluator evaluator(problem);
    const Bytes limit = problem.cluster->accelerator.memory * 0.75;
    CHECK(evaluator.memory_limit() == limit);
    const auto peak = [&](double risk) { return peak_at_risk(kError, risk, limit); };
    CHECK(evaluator.memory_fit({}, peak(0.09)) == MemoryFit::Fits);
    CHECK(evaluator.memory_fit({}, peak(0.11)) == MemoryFit::Tight);
    CHECK(evaluator.memory_fit({}, peak(0.49)) == MemoryFit::Tight);
    CHECK(evaluator.memory_fit({}, peak(0.51)) == MemoryFit::No);
    problem.memory_risk = 0.7;
    const PlanEvaluator daring(problem);
    CHECK(daring.memory_fit({}, peak(0.69)) == MemoryFit::Fits);
    CHECK(daring.memory_fit({}, peak(0.71)) == MemoryFit::No);
  }
}

}  // namespace
}  // namespace plansearch::memory_risk_test
