// SPDX-License-Identifier: Apache-2.0
// From what the search found to what the reader is told.
#pragma once

#include "cli/load.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"

namespace plansearch::cli {

/// Ranks, ties, counts and optimality; remedies are added by who knows them.
[[nodiscard]] SearchReport make_report(const Inputs& inputs, const PlanEvaluator& evaluator,
                                       const SearchSpace& space, const SearchResult& result);

/// One given plan as the only entry of a report; beyond memory it is also the nearest miss.
[[nodiscard]] SearchReport make_prediction(const Inputs& inputs, const PlanEvaluator& evaluator,
                                           const PlanDegrees& plan);

}  // namespace plansearch::cli
