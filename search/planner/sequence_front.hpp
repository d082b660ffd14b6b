// SPDX-License-Identifier: Apache-2.0
// The choices of sequences worth pricing as whole plans.
#pragma once

#include <vector>

#include "search/planner/sequence_planner.hpp"

namespace plansearch {

/// The least sum first, then the least bytes, then the corners of the convex front between; points
/// within 1 % in time or in bytes are not told apart. Empty where there is no choice.
[[nodiscard]] std::vector<SequencePlan> sequence_front(const SequencePlanner& planner,
                                                       Recompute level, Rings rings);

}  // namespace plansearch
