// SPDX-License-Identifier: Apache-2.0
// Full recomputation of no more layers than it takes.
#pragma once

#include "plansearch/search.hpp"

namespace plansearch {

/// Adds, for every ranked plan and every one of `recomputing` that recomputes all layers because it
/// has to, the one that recomputes as few layers of every chunk as have room, where the framework
/// can and it ranks. Returns how many plans were looked into.
int add_fewest_layers(const PlanEvaluator& evaluator, SearchResult& result);

}  // namespace plansearch
