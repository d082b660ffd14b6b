// SPDX-License-Identifier: Apache-2.0
#include "plansearch/search.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "plansearch/schedule_id.hpp"
#include "search/ranking/plan_ranking.hpp"

namespace plansearch::ranking_test {
namespace {

PlanCandidate candidate(double time, double memory, int tensor = 1) {
  PlanCandidate c;
  c.plan.tensor_out = tensor;
  c.estimate.step.compute = Seconds(time);
  c.estimate.memory.activations = Bytes(memory);
  return c;
}

TEST_SUITE("unit") {
  TEST_CASE("two plans stop being a tie at the ratio of the tie probability") {
    for (const double sigma : {0.01, 0.035, 0.2}) {
      const double ratio = tied_ratio(sigma);
      CHECK(probability_faster(Seconds(1), Seconds(ratio * 0.9999), sigma) < kTieProbability);
      CHECK(probability_faster(Seconds(1), Seconds(ratio * 1.0001), sigma) > kTieProbability);
    }
    CHECK(tied_ratio(0.0) == 1.0);
  }

  TEST_CASE(
      "a family leaves chunks, order, kind of context and sharded states open, nothing else") {
    PlanDegrees plan;
    plan.pipeline = 4;
    PlanDegrees interleaved = plan;
    interleaved.chunks = 2;
    interleaved.schedule = find_schedule("interleaved").value();
    CHECK(plan_family(interleaved) == plan_family(plan));
    PlanDegrees twin = plan;
    twin.zero = ZeroStage::Optimizer;
    twin.context_kind = ContextKind::Ulysses;
    CHECK(plan_family(twin) == plan_family(plan));
    twin.zero = ZeroStage::Gradients;
    CHECK(plan_family(twin) != plan_family(plan));
    interleaved.micro_batch = 2;
    CHECK(plan_family(interleaved) != plan_family(plan));
  }

  TEST_CASE("time decides, then memory, then the plan") {
    CHECK(ranks_before(candidate(1, 9), candidate(2, 1)));
    CHECK(ranks_before(candidate(1, 1), candidate(1, 2)));
    CHECK(ranks_before(candidate(1, 1, 1), candidate(1, 1, 2)));
    CHECK_FALSE(ranks_before(candidate(1, 1), candidate(1, 1)));
  }

  TEST_CASE("the front keeps what no other plan beats twice") {
    const auto front = pareto_front(
        {candidate(3, 1), candidate(1, 5), candidate(2, 6), candidate(2, 3), candidate(4, 1)});
    REQUIRE(front.size() == 3);
    CHECK(front[0].estimate.step.total() == Seconds(1));
    CHECK(front[1].estimate.step.total() == Seconds(2));
    CHECK(front[2].estimate.step.total() == Seconds(3));
  }

  TEST_CASE("the front has one of plans that are equally fast or large but for rounding") {
    const auto front = pareto_front({candidate(2, 50), candidate(std::nextafter(2.0, 3.0), 30),
                                     candidate(3, 29.5), candidate(4, 10)});
    REQUIRE(front.size() == 2);
    CHECK(front[0].estimate.memory.total() == Bytes(30));
    CHECK(front[1].estimate.memory.total() == Bytes(10));
  }

  TEST_CASE("a bound excludes what the front beats, not what may tie with a member of it") {
    Thresholds thresholds;
    thresholds.time = Seconds(1);
    thresholds.front = {candidate(2, 10), candidate(3, 5)};
    CHECK(thresholds.exclude({Seconds(2.1), Bytes(10)}));
    CHECK(thresholds.exclude({Seconds(3.1), Bytes(5)}));
    CHECK_FALSE(thresholds.exclude({Seconds(2.1), Bytes(9)}));
    CHECK_FALSE(thresholds.exclude({Seconds(3.1), Bytes(4)}));
    // Degrees decide which of two equal plans the front keeps, and bounds may be rounded up.
    CHECK_FALSE(thresholds.exclude({Seconds(2), Bytes(10)}));
    CHECK_FALSE(thresholds.exclude({Seconds(std::nextafter(2.0, 3.0)), Bytes(10)}));
    CHECK_FALSE(thresholds.exclude({Seconds(1), Bytes(20)}));
  }

  TEST_CASE("the chance of being faster is that of a normal difference of logarithms") {
    CHECK(probability_faster(Seconds(1), Seconds(1), 0.02) == 0.5);
    // ln(1.02) / 0.02 = 0.990131; Phi(0.990131) = 0.83895 (tables of the normal distribution).
    CHECK(probability_faster(Seconds(1), Seconds(1.02), 0.02) ==
          doctest::Approx(0.83895).epsilon(1e-4));
    CHECK(probability_faster(Seconds(1.02), Seconds(1), 0.02) ==
          doctest::Approx(0.16105).epsilon(1e-4));
  }
}

}  // namespace
}  // namespace plansearch::ranking_test
