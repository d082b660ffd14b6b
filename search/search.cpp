// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans of a space and its Pareto front.
// Source: a strategy finds plans, one judge ranks them.
// Assumes: what the strategy leaves out cannot enter the answer.
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp (exhaustive = pruned; 1, 2 and 5 threads equal).
#include "plansearch/search.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "evaluate/framework_constants.hpp"
#include "search/strategy.hpp"

namespace plansearch {

bool Deadline::passed() const {
  const bool late =
      options_.time_limit && std::chrono::steady_clock::now() - started_ > *options_.time_limit;
  return late || (options_.interrupted != nullptr && options_.interrupted->load());
}

SearchOptions with_time_left(SearchOptions options, std::chrono::steady_clock::time_point started) {
  if (options.time_limit) {
    const auto rest = *options.time_limit - (std::chrono::steady_clock::now() - started);
    options.time_limit = std::max(rest, std::chrono::steady_clock::duration::zero());
  }
  return options;
}

std::int64_t SearchCounts::rejected_total() const {
  return std::accumulate(rejected.begin(), rejected.end(), std::int64_t{0});
}

namespace {

/// Tells the plans that are priced, each once, over the two looks that a search may take.
class PricedOnce {
 public:
  explicit PricedOnce(const SearchOptions& options) : tell_(options.priced) {}

  /// Told plans are remembered as long as none of them fits: only then there is a second look.
  void first_look(std::span<const PlanCandidate> priced, Bytes fits) {
    for (const PlanCandidate& candidate : priced) {
      if (candidate.estimate.memory.total() <= fits) only_tight_ = false;
      if (only_tight_) told_.insert(candidate.plan);
    }
    if (!only_tight_) told_.clear();
    tell_(priced);
  }
  void second_look(std::span<const PlanCandidate> priced) {
    std::vector<PlanCandidate> fresh;
    for (const PlanCandidate& candidate : priced) {
      if (!told_.contains(candidate.plan)) fresh.push_back(candidate);
    }
    tell_(fresh);
  }

 private:
  const std::function<void(std::span<const PlanCandidate>)>& tell_;
  bool only_tight_ = true;
  std::set<PlanDegrees> told_;
};

SearchResult search_within(const SearchTask& task) {
  const Strategy strategy = enumerate_plans;
  const double sigma = framework_constants(*task.evaluator.problem().framework).paired_sigma;
  Judge judge(task.evaluator, task.options.top, tied_ratio(sigma));
  SearchResult result;
  SearchCounts& counts = result.counts;
  counts.space = SpaceCounter(task.walk.space()).all();
  strategy(task, judge, result);
  counts.unvisited = counts.space - counts.evaluated - counts.pruned - counts.rejected_total();
  judge.conclude(result);
  return result;
}

}  // namespace

SearchResult search(const PlanEvaluator& evaluator, const SearchSpace& space,
                    const SearchOptions& options) {
  const LegalWalk walk(evaluator, space);
  const Deadline deadline(options);
  const Bytes fits = evaluator.memory_up_to(MemoryFit::Fits);
  const Bytes tight = evaluator.memory_up_to(MemoryFit::Tight);
  PricedOnce priced(options);
  SearchOptions asked = options;
  if (options.priced) {
    asked.priced = [&](std::span<const PlanCandidate> plans) { priced.first_look(plans, fits); };
  }
  SearchTask task{evaluator, walk, asked, deadline, {fits, tight}};
  SearchResult result = search_within(task);
  const bool complete = result.completeness == Completeness::Optimal;
  if (result.ranked.empty() && result.tight) {
    // Nothing fits for sure: what may fit is ranked, and was not looked at closely so far.
    task.limits.fits = tight;
    if (options.priced) {
      asked.priced = [&](std::span<const PlanCandidate> plans) { priced.second_look(plans); };
    }
    const PlanCandidate known = *std::exchange(result.tight, std::nullopt);
    if (complete) result = search_within(task);
    if (result.ranked.empty()) result.ranked.push_back(known);
    result.admitted = MemoryFit::Tight;
  }
  if (result.ranked.empty() && complete) result.misses = nearest_misses(task, options.misses);
  return result;
}

}  // namespace plansearch
