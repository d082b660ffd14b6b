// SPDX-License-Identifier: Apache-2.0
// The choices of sequences worth pricing as whole plans.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "search/strategies/partition/partition_planner.hpp"

namespace plansearch {

/// The least sum first, then the least bytes, then the corners of the convex front between; points
/// within 1 % in time or in bytes count as one. Empty where there is no choice.
[[nodiscard]] std::vector<PartitionPlan> sequence_front(const PartitionPlanner& planner,
                                                        Recompute level, Rings rings);

/// The corner of that front with the least sum of those that have room, where `fastest`, the least
/// sum of all, has none. Nothing where the least bytes have none either.
[[nodiscard]] std::optional<PartitionPlan> fastest_with_room(
    const PartitionPlanner& planner, Recompute level, Rings rings, const PartitionPlan& fastest,
    const std::function<bool(const PartitionPlan&)>& has_room);

}  // namespace plansearch
