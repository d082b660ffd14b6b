// SPDX-License-Identifier: Apache-2.0
#include "problem/summarized_plan.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "plan/expand.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_stages.hpp"

namespace plansearch {
namespace {

BlockRun run_of(const HeldBlocks& held, const Network& network) {
  const auto found = std::find_if(network.blocks.begin(), network.blocks.end(),
                                  [&](const Block& block) { return block.name == held.block; });
  PLANSEARCH_CHECK(found != network.blocks.end());
  return {static_cast<std::size_t>(found - network.blocks.begin()), held.count};
}

}  // namespace

ParallelPlan plan_of(const PlanSummary& summary, const PlanEvaluator& evaluator) {
  const Problem& problem = evaluator.problem();
  const PlanDegrees& degrees = summary.degrees;
  std::vector<StageDescription> stages;
  for (const SpelledStage& spelled : summary.spelled) {
    StageDescription& stage = stages.emplace_back();
    stage.degrees = spelled.degrees;
    stage.first_rank = spelled.first_rank;
    stage.chunks.clear();
    for (const std::vector<HeldBlocks>& chunk : spelled.chunks) {
      std::vector<BlockRun>& runs = stage.chunks.emplace_back();
      for (const HeldBlocks& held : chunk) runs.push_back(run_of(held, *problem.network));
    }
  }
  const auto uniform = [&] {
    return summary.placements ? expand(degrees, *problem.network, *problem.framework)
                              : evaluator.expand(degrees);
  };
  auto plan = stages.empty()
                  ? uniform()
                  : plan_of_stages(stages, {degrees.schedule, degrees.micro_batches},
                                   problem.global_batch, *problem.framework, *problem.network);
  PLANSEARCH_CHECK(std::holds_alternative<ParallelPlan>(plan));
  if (!summary.placements) return std::get<ParallelPlan>(std::move(plan));
  const auto made =
      resolve_placements(*summary.placements, *problem.network, degrees, *problem.framework);
  PLANSEARCH_CHECK(std::holds_alternative<DistinguishedNetwork>(made));
  auto placed = with_placements(std::get<ParallelPlan>(std::move(plan)),
                                std::get<DistinguishedNetwork>(made).placements, *problem.network,
                                *problem.framework);
  PLANSEARCH_CHECK(std::holds_alternative<ParallelPlan>(placed));
  return std::get<ParallelPlan>(std::move(placed));
}

}  // namespace plansearch
