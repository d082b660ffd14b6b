// SPDX-License-Identifier: Apache-2.0
// Plans of one family (ranking.hpp) that tie.
#pragma once

#include <cstddef>
#include <vector>

#include "plansearch/ranking.hpp"

namespace plansearch {

/// A plan and its variants: the simplest one first, the others by time.
using PlanGroup = std::vector<PlanCandidate>;

/// The `top` best groups of ranked plans, by the time of the plan that stands for each. Plans of
/// one family that do not tie with its fastest make further groups.
[[nodiscard]] std::vector<PlanGroup> grouped_variants(const std::vector<PlanCandidate>& ranked,
                                                      double paired_sigma, std::size_t top);

}  // namespace plansearch
