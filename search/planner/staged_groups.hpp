// SPDX-License-Identifier: Apache-2.0
// Plans of degrees among plans of stages: variants that tie are one candidate.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "plansearch/ranking.hpp"
#include "search/planner/uneven_search.hpp"

namespace plansearch {

/// Plans of degrees, each written out by `plan_of`.
struct DegreePlans {
  std::vector<PlanCandidate> ranked;  ///< fastest first
  std::function<std::variant<ParallelPlan, Infeasible>(const PlanDegrees&)> plan_of;
};

/// The `top` best groups of variants (search/variants.hpp).
[[nodiscard]] std::vector<StagedCandidate> staged_groups(const Problem& problem,
                                                         const DegreePlans& plans, std::size_t top);

}  // namespace plansearch
