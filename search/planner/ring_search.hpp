// SPDX-License-Identifier: Apache-2.0
// Plans of a framework that runs gathers and scatters in steps under products, with them and
// without.
#pragma once

#include "search/planner/uneven_search.hpp"

namespace plansearch {

/// What the framework runs by degrees, and the same with rings under the products of all layers
/// wherever tokens are cut over the tensor group between them.
[[nodiscard]] UnevenResult search_rings(const PlanEvaluator& evaluator, const StageRequest& request,
                                        const SearchOptions& options);

}  // namespace plansearch
