// SPDX-License-Identifier: Apache-2.0
// Plans whose stages are listed one by one; uniform ones come from degrees.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/network.hpp"
#include "plansearch/plan.hpp"

namespace plansearch {

/// One stage: its degrees (those of the whole plan, `kPipelineDegrees`, are ignored) and the
/// runs of blocks that each of its chunks holds.
struct StageDescription {
  PlanDegrees degrees;
  std::vector<std::vector<BlockRun>> chunks = std::vector<std::vector<BlockRun>>(1);
  /// The first rank of the stage; absent: stages that are split alike lie along the pipeline axis
  /// of the framework's rank order, others side by side.
  std::optional<int> first_rank;
  bool operator==(const StageDescription&) const = default;
};

/// Copies of a block by its name, as files and answers say it.
struct NamedBlocks {
  std::string block;
  std::int64_t count = 1;
  bool operator==(const NamedBlocks&) const = default;
};
/// Blocks that differ in how their operators are cut have one name.
[[nodiscard]] std::vector<NamedBlocks> named_blocks(const std::vector<BlockRun>& runs,
                                                    const Network& network);
/// Layers of all chunks.
[[nodiscard]] std::int64_t layers_of(const StageDescription& stage, const Network& network);

/// `batch` sequences per step go in `order.micro_batches` micro-batches. Infeasible when a stage's
/// share of a micro-batch is not a whole number of sequences, stages have different numbers of
/// chunks, or the schedule does not take so many.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> plan_of_stages(
    std::span<const StageDescription> stages, Order order, std::int64_t batch,
    const Framework& framework, const Network& network);

/// The stages of a plan, as `plan_of_stages` takes them.
[[nodiscard]] std::vector<StageDescription> stages_of(const ParallelPlan& plan,
                                                      const Framework& framework);

/// The plan with its operators placed one by one; `network` is the one the placements were made
/// for, and the plan too. Infeasible where they do not fit the tensor group of a stage.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> with_placements(ParallelPlan plan,
                                                                     const Placements& placements,
                                                                     const Network& network,
                                                                     const Framework& framework);

/// The same plan with every operator cut by role, on the network that distinguishes layers.
[[nodiscard]] ParallelPlan without_placements(ParallelPlan plan, const Framework& framework);

}  // namespace plansearch
