// SPDX-License-Identifier: Apache-2.0
// Plans whose operators are cut by sequences of dimensions and squares of devices: the best sum of
// every tensor group, written as placements and priced as any plan.
#pragma once

#include <string_view>

#include "search/planner/uneven_search.hpp"

namespace plansearch {

/// Whether a named space is one of sequences.
[[nodiscard]] constexpr bool cuts_in_steps(std::string_view space) {
  return space == "temporal" || space == "primepar";
}

/// For every tensor degree that is a power of two, every micro-batch and recompute level: the
/// choices of least sum, with rings hidden and not, and the convex front of time and bytes; beside
/// them the plan of the same degrees by role. Pipelines as asked for. Ranks are by the priced step.
[[nodiscard]] UnevenResult search_temporal(const PlanEvaluator& evaluator,
                                           const StageRequest& request,
                                           const SearchOptions& options);
/// The same over the sequences of PrimePar's paper.
[[nodiscard]] UnevenResult search_primepar(const PlanEvaluator& evaluator,
                                           const StageRequest& request,
                                           const SearchOptions& options);

}  // namespace plansearch
