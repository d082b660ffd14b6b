// SPDX-License-Identifier: Apache-2.0
// Computes: candidates of stages from ranked plans of degrees.
// Source: search/variants.hpp. Assumes: the plans are legal. Units: none.
// Checked by: tests/unit/search/full_search_test.cpp
#include "search/planner/staged_groups.hpp"

#include <utility>

#include "evaluate/framework_constants.hpp"
#include "search/variants.hpp"

namespace plansearch {

std::vector<StagedCandidate> staged_groups(const Problem& problem, const DegreePlans& plans,
                                           std::size_t top) {
  const double sigma = framework_constants(*problem.framework).paired_sigma;
  std::vector<StagedCandidate> staged;
  for (const PlanGroup& group : grouped_variants(plans.ranked, sigma, top)) {
    auto made = plans.plan_of(group.front().plan);
    auto* plan = std::get_if<ParallelPlan>(&made);
    if (plan == nullptr) continue;
    StagedCandidate& candidate =
        staged.emplace_back(StagedCandidate{std::move(*plan), group.front().estimate});
    for (std::size_t i = 1; i < group.size(); ++i) candidate.variants.push_back(group[i].plan);
  }
  return staged;
}

}  // namespace plansearch
