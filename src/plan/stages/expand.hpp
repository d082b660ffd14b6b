// SPDX-License-Identifier: Apache-2.0
// From the degrees a user types to a plan, and what any plan must not contradict.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/plan.hpp"
#include "workload/network_edges.hpp"

namespace plansearch {

/// The uniform plan of a tuple of degrees: one transform, positions along the pipeline axis of the
/// mesh, layers by the framework's rule. Infeasible when the layers do not go into the stages.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> expand(const PlanDegrees& degrees,
                                                            const Network& network,
                                                            const Framework& framework);

/// Degrees on their mesh, with the placements that follow from them.
[[nodiscard]] Transform make_transform(const PlanDegrees& degrees, DeviceMesh mesh,
                                       const Network& network);

/// The assignment of `expand` alone. `stride`: ranks between neighbouring stages.
[[nodiscard]] std::variant<std::shared_ptr<const Assignment>, Infeasible> uniform_assignment(
    const PlanDegrees& degrees, const Network& network, const Framework& framework, int stride);

/// Degrees below one, or so large that products of them overflow.
[[nodiscard]] std::optional<Infeasible> check_range(const PlanDegrees& degrees);
/// Faults that make a plan none of this network at all: nothing assigned, dangling indices,
/// degrees, mesh and order that contradict each other, a rank twice. Assumes nothing; the checks
/// below assume that it found nothing.
[[nodiscard]] std::optional<Infeasible> check_structure(const ParallelPlan& plan,
                                                        const Network& network);
/// Why the schedule cannot run, or does not place groups as the plan does.
[[nodiscard]] std::optional<Infeasible> check_pipeline(const ParallelPlan& plan,
                                                       const Framework& framework,
                                                       const Network& network);

/// Contradictions in an assignment, with the network or with `gpus` devices: blocks
/// missing, repeated or out of order, another number of ranks.
[[nodiscard]] std::optional<Infeasible> check_assignment(const ParallelPlan& plan,
                                                         const Network& network, int gpus);

/// All of the above; then stages that network or framework forbid, and another batch.
[[nodiscard]] std::optional<Infeasible> check_plan(const ParallelPlan& plan, const Network& network,
                                                   const Framework& framework, int gpus,
                                                   std::int64_t batch, DataType precision);

/// The runs without empty ones, neighbours of one block as one.
[[nodiscard]] std::vector<BlockRun> joined(const std::vector<BlockRun>& runs);

/// Completes an assignment whose positions, groups and way of skips are known. `first`: position in
/// the network of what the first group begins with.
void index_contents(Assignment& assignment, const Network& network, std::int64_t first = 0);

/// Edges of a group whose first copy of a block has that position. `tensors`:
/// shared_tensors(network).
[[nodiscard]] GroupEdges group_edges(const Network& network,
                                     const std::vector<SharedTensor>& tensors,
                                     const std::vector<BlockRun>& blocks, std::int64_t first,
                                     SkipRoute skips);

/// Messages along edges between groups of one replica, the first of which begins at position
/// `first`; sorted by receiver. Tensors that a group hands to the next along the chain are not among them.
[[nodiscard]] std::vector<DirectMessage> direct_messages(const Network& network,
                                                         const std::vector<SharedTensor>& tensors,
                                                         const std::vector<OperatorGroup>& groups,
                                                         std::size_t replica, std::int64_t first);

/// Copies of blocks in these runs.
[[nodiscard]] std::int64_t copies_of(const std::vector<BlockRun>& blocks);

}  // namespace plansearch
