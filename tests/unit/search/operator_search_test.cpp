// SPDX-License-Identifier: Apache-2.0
#include "search/planner/operator_search.hpp"

#include <doctest/doctest.h>

#include <random>

#include "plan/expand.hpp"
#include "plansearch/plan_stages.hpp"
#include "search/planner/intra_op.hpp"
#include "support/search_space.hpp"
#include "support/tensor_group.hpp"
#include "support/toy_problem.hpp"

using namespace plansearch;

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

/// The plan of a choice for the layers; embedding and head by role.
ParallelPlan plan_of(const Problem& problem, const OperatorSplit& split, const SplitChoice& choice,
                     std::size_t layer) {
  const Network& network = *problem.network;
  Placements placements{{8}, {}};
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    BlockChoice& block = placements.blocks.emplace_back();
    block.operators.resize(network.blocks[b].operators.size());
    if (b == layer) block = choice_of(split, choice, network);
  }
  auto uniform = expand(test::tensor_groups(problem, 8, 4), network, *problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(uniform));
  auto placed =
      with_placements(std::get<ParallelPlan>(uniform), placements, network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) FAIL(bad->detail);
  return std::get<ParallelPlan>(placed);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the sum a choice is made by is what the plan with its placements is made of") {
    // Kernels and messages of one copy of the layer, from the report of the whole plan.
    const Problem problem = wide_problem();
    const PlanEvaluator evaluator(problem);
    const std::size_t layer = test::layer_block(*problem.network);
    const OperatorSplit split(problem, test::tensor_groups(problem, 8, 4), layer);
    std::mt19937 random(4);
    for (int round = 0; round < 20; ++round) {
      SplitChoice choice;
      for (std::size_t op = 0; op < split.block().operators.size(); ++op) {
        const auto& options = split.options(op);
        choice.push_back(round == 0 ? kWhole : options[random() % options.size()]);
      }
      Seconds sum;
      for (const OperatorReport& line :
           evaluator.details(plan_of(problem, split, choice, layer)).operators) {
        if (line.block == split.block().name) sum += line.total();
      }
      CHECK(sum.value() == doctest::Approx(split.price(choice).value()).epsilon(1e-12));
    }
  }

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
    CHECK(found.claim.find("exact for the sum") != std::string::npos);
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
    const OperatorSplit split(problem, test::tensor_groups(problem, 8, 4), layer);
    const SplitChoice whole(split.block().operators.size(), kWhole);
    const Evaluation other = evaluator.evaluate(plan_of(problem, split, whole, layer));
    REQUIRE(std::holds_alternative<Estimate>(other));
    CHECK(best.estimate.step.total() < std::get<Estimate>(other).step.total());
  }
}
