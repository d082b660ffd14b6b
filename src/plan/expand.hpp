// SPDX-License-Identifier: Apache-2.0
// From the degrees a user types, or from stages spelled out one by one, to a plan.
#pragma once

#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "plan/layer_distribution.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/plan.hpp"

namespace plansearch {

/// The uniform plan of a tuple of degrees: one transform, positions along the pipeline axis of the
/// mesh, layers by the framework's rule. Infeasible when the layers do not go into the stages.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> expand(const PlanDegrees& degrees,
                                                            const Network& network,
                                                            const Framework& framework);

/// The assignment of `expand` alone. `stride`: ranks between neighbouring stages.
[[nodiscard]] std::variant<std::shared_ptr<const Assignment>, Infeasible> uniform_assignment(
    const PlanDegrees& degrees, const Network& network, const Framework& framework, int stride);

/// One stage of a plan that is spelled out: its degrees (`pipeline`, `chunks`, `micro_batch` and
/// `micro_batches` are not looked at) and the runs of blocks it holds.
struct StageDescription {
  PlanDegrees degrees;
  std::vector<BlockRun> blocks;
  bool operator==(const StageDescription&) const = default;
};

/// A plan whose stages stand side by side on consecutive ranks. `batch` sequences per step go in
/// `order.micro_batches` micro-batches. Infeasible when a stage's share of a micro-batch is no
/// whole number of sequences.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> plan_of_stages(
    std::span<const StageDescription> stages, Order order, std::int64_t batch,
    const Framework& framework, const Network& network);

/// The stages of a plan with one group per position, as `plan_of_stages` takes them.
[[nodiscard]] std::vector<StageDescription> stages_of(const ParallelPlan& plan);

/// Fills in what follows from positions and groups.
void index_contents(Assignment& assignment, const Network& network);

/// Degrees below one, or so large that products of them overflow.
[[nodiscard]] std::optional<Infeasible> check_range(const PlanDegrees& degrees);
/// What makes a plan no plan of this network at all: nothing assigned, indices of nothing, degrees,
/// mesh and order that contradict each other, a rank twice. Assumes nothing; the checks below
/// assume that it found nothing.
[[nodiscard]] std::optional<Infeasible> check_structure(const ParallelPlan& plan,
                                                        const Network& network);
/// Why the schedule cannot run, or does not place groups as the plan does.
[[nodiscard]] std::optional<Infeasible> check_pipeline(const ParallelPlan& plan,
                                                       const Framework& framework);

/// What contradicts itself in an assignment, or does not fit the network or `gpus` devices: blocks
/// missing, repeated or out of order, another number of ranks.
[[nodiscard]] std::optional<Infeasible> check_assignment(const ParallelPlan& plan,
                                                         const Network& network, int gpus);

}  // namespace plansearch
