// SPDX-License-Identifier: Apache-2.0
// Blocks that the devices of all stages hold together, in place of one stage: the interlaced
// pipelines of nnScaler.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "plan/placements/selector.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/network.hpp"
#include "plansearch/plan.hpp"

namespace plansearch {

/// Takes the blocks that the selectors ("embedding", "*head*") mean off their stages and splits
/// them over the devices of all stages, a tensor group of all of a replica; the rest stays where it
/// is, and the order is the shortest window (plan.hpp, Order::window). Infeasible where such a
/// block lies in the middle of a stage, and where stages differ in their data degree or are split
/// otherwise than over data and tensor ranks. Plans of one stage stay as they are.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> with_gangs(ParallelPlan plan,
                                                                std::span<const std::string> blocks,
                                                                const Network& network,
                                                                const Framework& framework);

/// Whether a framework runs such plans, and orders that are found for them.
[[nodiscard]] std::optional<Infeasible> check_shared_devices(const Framework& framework);

/// The copies of blocks that the selectors mean, by place in `block_copies`.
[[nodiscard]] std::vector<bool> selected_copies(std::span<const std::string> blocks,
                                                const Network& network);

/// The plan whose gangs lie on the stages in front of which micro-batches pass them, the last on
/// the last stage, in the order of its schedule.
[[nodiscard]] ParallelPlan without_gangs(ParallelPlan plan, const Network& network);

/// Passes of a plan's stops as names: "f0", "b3" by group, "f.head" by the first block of a gang.
[[nodiscard]] std::vector<std::string> pass_names(const Assignment& assignment,
                                                  const Network& network);

/// The rules of the plan's order as people write them.
[[nodiscard]] std::vector<std::string> rule_texts(const ParallelPlan& plan, const Network& network);

}  // namespace plansearch
