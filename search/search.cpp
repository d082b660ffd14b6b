// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans of a space and its Pareto front.
// Source: a strategy finds plans, one judge ranks them.
// Assumes: what the strategy leaves out cannot enter the answer.
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp (exhaustive = pruned; 1, 2 and 5 threads equal).
#include "plansearch/search.hpp"

#include <numeric>

#include "search/strategy.hpp"

namespace plansearch {

bool Deadline::passed() const {
  const bool late =
      options_.time_limit && std::chrono::steady_clock::now() - started_ > *options_.time_limit;
  return late || (options_.interrupted != nullptr && options_.interrupted->load());
}

std::int64_t SearchCounts::rejected_total() const {
  return std::accumulate(rejected.begin(), rejected.end(), std::int64_t{0});
}

SearchResult search(const PlanEvaluator& evaluator, const SearchSpace& space,
                    const SearchOptions& options) {
  const LegalWalk walk(evaluator, space);
  const Deadline deadline(options);
  const SearchTask task{evaluator, walk, options, deadline};
  const Strategy strategy = enumerate_plans;
  Judge judge(evaluator, options.top);
  SearchResult result;
  SearchCounts& counts = result.counts;
  counts.space = SpaceCounter(walk.space()).all();
  strategy(task, judge, result);
  counts.unvisited = counts.space - counts.evaluated - counts.pruned - counts.rejected_total();
  judge.conclude(result);
  const bool complete = result.completeness == Completeness::Optimal;
  if (result.ranked.empty() && complete) result.misses = nearest_misses(task, options.misses);
  return result;
}

}  // namespace plansearch
