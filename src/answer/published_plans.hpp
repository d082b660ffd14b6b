// SPDX-License-Identifier: Apache-2.0
// Published plans beside an answer.
#pragma once

#include <vector>

#include "plansearch/load_problem.hpp"
#include "plansearch/recipe.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

/// The recipes of the model on the machine at the size and sequence length of the answer, priced as
/// `predict` prices them: what the question leaves open comes from the recipe, but for batch,
/// sequence and precision, which are those of the answer.
[[nodiscard]] std::vector<PublishedReport> published_plans(const std::vector<Recipe>& recipes,
                                                           const ProblemRequest& request,
                                                           const ResolvedQuestion& asked,
                                                           const SearchReport& report);

}  // namespace plansearch
