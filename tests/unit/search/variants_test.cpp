// SPDX-License-Identifier: Apache-2.0
#include "plansearch/search.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "answer/search_answer.hpp"

namespace plansearch::variants_test {
namespace {

PlanCandidate candidate(double time, int chunks, int pipeline = 4) {
  PlanCandidate c;
  c.plan.pipeline = pipeline;
  c.plan.chunks = chunks;
  c.estimate.step.compute = Seconds(time);
  return c;
}

constexpr double kSigma = 0.035;  // plans tie up to a ratio of exp(0.8416 x 0.035) = 1.0299

TEST_SUITE("unit") {
  TEST_CASE("variants that tie are one group, the simplest first, the others by time") {
    const auto groups =
        grouped_variants({candidate(1.00, 8), candidate(1.01, 4), candidate(1.02, 2)}, kSigma, 10);
    REQUIRE(groups.size() == 1);
    REQUIRE(groups[0].size() == 3);
    CHECK(groups[0][0].plan.chunks == 2);
    CHECK(groups[0][1].plan.chunks == 8);
    CHECK(groups[0][2].plan.chunks == 4);
  }

  TEST_CASE(
      "plans that differ in sharded states or in the kind of context are twins of the fastest") {
    PlanCandidate sharded = candidate(1.01, 2);
    sharded.plan.zero = ZeroStage::Optimizer;
    PlanCandidate exchanged = candidate(1.02, 1);
    exchanged.plan.context_kind = ContextKind::Ulysses;
    const auto groups =
        grouped_variants({candidate(1.00, 8), sharded, exchanged, candidate(1.02, 4)}, kSigma, 10);
    REQUIRE(groups.size() == 1);
    CHECK(groups[0][0].plan == candidate(1.00, 4).plan);  // fewer chunks, not another strategy
    CHECK(groups[0].size() == 4);
  }

  // Tensors on the host cost copies: of plans that tie, they pay where something else gets better.
  TEST_CASE("of plans that tie the one with the fewest tensors on the host stands for all") {
    PlanCandidate states = candidate(1.00, 1);
    states.plan.on_host = 1;
    PlanCandidate none = candidate(1.02, 1);
    PlanCandidate more = candidate(1.01, 1);
    more.plan.on_host = 3;
    PlanCandidate others = candidate(1.02, 1);
    others.plan.on_host = 4;
    const auto groups = grouped_variants({states, more, none, others}, kSigma, 10);
    REQUIRE(groups.size() == 1);
    REQUIRE(groups[0].size() == 2);  // `more` and `others` are no faster than with fewer of them
    CHECK(groups[0][0].plan.on_host == 0);
    CHECK(groups[0][1].plan.on_host == 1);
  }

  TEST_CASE("what is slower by more than a tie, or differs in more, is a group of its own") {
    const auto groups = grouped_variants(
        {candidate(1.00, 8), candidate(1.01, 1, 8), candidate(1.04, 2), candidate(1.05, 1)}, kSigma,
        10);
    REQUIRE(groups.size() == 3);
    CHECK(groups[0][0].plan.chunks == 8);
    CHECK(groups[1][0].plan.pipeline == 8);
    CHECK(groups[2][0].plan.chunks == 1);  // ties with 2 chunks and is simpler
    CHECK(groups[2][1].plan.chunks == 2);
    CHECK(
        grouped_variants({candidate(1.00, 8), candidate(1.01, 1, 8), candidate(1.04, 2)}, kSigma, 2)
            .size() == 2);
  }

  TEST_CASE("the plan that stands for a group is no slower than the next group, for any number") {
    const std::vector<PlanCandidate> ranked{candidate(1.00, 8), candidate(1.005, 4),
                                            candidate(1.01, 1, 8), candidate(1.02, 2)};
    for (const std::size_t top : {1, 2, 10}) {
      const auto groups = grouped_variants(ranked, kSigma, top);
      REQUIRE(groups.size() == std::min<std::size_t>(top, 2));
      CHECK(groups[0][0].plan.chunks == 4);  // two chunks are simpler and come too late
      CHECK(groups[0].size() == 3);
      if (top > 1) CHECK(groups[1][0].plan.pipeline == 8);
    }
  }

  TEST_CASE("of groups that are equal, the one with the fewest axes comes first") {
    PlanCandidate rings = candidate(1.00, 1, 1), replicas = rings;
    rings.plan.data = rings.plan.context = 2;
    replicas.plan.data = 4;
    const auto groups = grouped_variants({rings, replicas}, kSigma, 10);
    REQUIRE(groups.size() == 2);
    CHECK(groups[0][0].plan.data == 4);
    CHECK(groups[1][0].plan.context == 2);
  }

  TEST_CASE("factors of a number") {
    CHECK(factors_text(1538) == "2 x 769");
    CHECK(factors_text(20000) == "2^5 x 5^4");
    CHECK(factors_text(7) == "7");
    CHECK(factors_text(1) == "1");
  }
}

}  // namespace
}  // namespace plansearch::variants_test
