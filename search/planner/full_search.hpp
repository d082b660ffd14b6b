// SPDX-License-Identifier: Apache-2.0
// All that a framework runs in one ranking: degrees with grids, layers dealt out, operators in
// steps.
#pragma once

#include "search/planner/uneven_search.hpp"

namespace plansearch {

/// The plans of `4d`, and of `layers` and `temporal` where the framework runs them, the latter for
/// every depth of a pipeline. The result says which space plan 1 is of, and what is known of it.
[[nodiscard]] UnevenResult search_full(const PlanEvaluator& evaluator, const StageRequest& request,
                                       const SearchOptions& options);

}  // namespace plansearch
