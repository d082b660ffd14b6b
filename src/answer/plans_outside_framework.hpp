// SPDX-License-Identifier: Apache-2.0
// Plans that a framework cannot run and that would beat what it can.
#pragma once

#include <span>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/ranking.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

/// Every row of the table of steps beyond a framework tries variations of the first of the ranked
/// plans; the fastest of each that fit and are faster than the first plan by more than a tie.
[[nodiscard]] std::vector<BeyondReport> beyond_framework(const PlanEvaluator& evaluator,
                                                         std::span<const PlanCandidate> ranked);

}  // namespace plansearch
