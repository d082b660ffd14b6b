// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "search/strategies/partition/group_degrees.hpp"
#include "support/search_space.hpp"
#include "support/tensor_group.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::operator_search_test {

namespace {

/// GPT-2 XL's widths: 25 heads of 64, 6400 FFN features.
Problem wide_problem() {
  test::ToyOptions options;
  options.heads = 25;
  options.hidden = 1600;
  options.seq_len = 1024;
  options.layers = 4;
  options.gpus = 8;
  return test::toy_problem(options);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("space operators: the FFN of 25 heads over eight devices, as predict prices it") {
    const Problem problem = wide_problem();
    const PlanEvaluator evaluator(problem);
    PinnedDegrees pinned;
    pinned.pin(Degree::TensorOut, 8);
    pinned.pin(Degree::MicroBatch, 4);
    const SearchResult found = test::search_space("operators", evaluator, {pinned, {}});
    REQUIRE_FALSE(found.ranked.empty());
    const PlanCandidate& best = found.ranked.front();
    const Evaluation again = evaluator.evaluate(*best.written);
    REQUIRE(std::holds_alternative<Estimate>(again));
    CHECK(std::get<Estimate>(again) == best.estimate);
    CHECK(found.claim.find("least sum of kernels and messages") != std::string::npos);
    const std::size_t layer = test::layer_block(*problem.network);
    bool ffn = false;
    for (const auto& cuts : best.written->transforms[0].placements->blocks[layer].operators) {
      REQUIRE(cuts.has_value());
      for (const DimensionCut& cut : *cuts) {
        const DimRole role = problem.network->dimension(cut.dim).role;
        CHECK(role != DimRole::Head);
        ffn = ffn || role == DimRole::Ffn;
      }
    }
    CHECK(ffn);
    // Whole on every device is a plan too, and slower.
    Placements whole = *best.written->transforms[0].placements;
    for (auto& cuts : whole.blocks[layer].operators) cuts->clear();
    const auto placed = placed_plan(problem, best.plan, whole);
    REQUIRE(std::holds_alternative<ParallelPlan>(placed));
    const Evaluation other = evaluator.evaluate(std::get<ParallelPlan>(placed));
    REQUIRE(std::holds_alternative<Estimate>(other));
    CHECK(best.estimate.step.total() < std::get<Estimate>(other).step.total());
  }
}

}  // namespace plansearch::operator_search_test
