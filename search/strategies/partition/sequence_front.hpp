// SPDX-License-Identifier: Apache-2.0
// The choices of sequences worth pricing as whole plans.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "search/strategies/partition/sequence_planner.hpp"

namespace plansearch {

/// The least sum first, then the least bytes, then the corners of the convex front between; points
/// within 1 % in time or in bytes count as one. Empty where there is no choice.
[[nodiscard]] std::vector<SequencePlan> sequence_front(const SequencePlanner& planner,
                                                       Recompute level, Rings rings);

/// The corner of that front with the least sum of those that have room, where `fastest`, the least
/// sum of all, has none. Nothing where the least bytes have none either.
[[nodiscard]] std::optional<SequencePlan> fastest_with_room(
    const SequencePlanner& planner, Recompute level, Rings rings, const SequencePlan& fastest,
    const std::function<bool(const SequencePlan&)>& has_room);

}  // namespace plansearch
