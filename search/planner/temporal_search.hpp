// SPDX-License-Identifier: Apache-2.0
// Plans whose operators are cut by sequences of dimensions and squares of devices: the best sum of
// every tensor group, written as placements and priced as any plan.
#pragma once

#include "search/planner/uneven_search.hpp"

namespace plansearch {

/// Whether there is anything for `search_temporal` to look at: steps that the framework runs, over
/// squares a tensor group that is cut bit by bit.
[[nodiscard]] bool runs_in_steps(const Framework& framework, const StageRequest& request);

/// For every tensor degree that is a power of two, every micro-batch and recompute level: the
/// choice of least sum that has room, with rings hidden and not, where it may rank; beside them the
/// plan of the same degrees by role. Pipelines as asked for. Ranks are by the priced step. Of a
/// framework that runs rings under products instead, those (ring_search.hpp).
[[nodiscard]] UnevenResult search_temporal(const PlanEvaluator& evaluator,
                                           const StageRequest& request,
                                           const SearchOptions& options);
/// The same over the sequences of PrimePar's paper.
[[nodiscard]] UnevenResult search_primepar(const PlanEvaluator& evaluator,
                                           const StageRequest& request,
                                           const SearchOptions& options);

}  // namespace plansearch
