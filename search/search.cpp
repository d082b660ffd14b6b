// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans of a space and its Pareto front.
// Source: strategies find plans, one ranking orders them.
// Assumes: what a strategy leaves out cannot enter the answer.
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp (exhaustive = pruned; 1, 2 and 5 threads equal),
//             full_search_test.cpp (several parts: the best of each, asked alone).
#include "plansearch/search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/checked.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {

std::int64_t SearchCounts::rejected_total() const {
  return std::accumulate(rejected.begin(), rejected.end(), std::int64_t{0});
}

namespace {

/// Reports the plans that are priced, each once, over the parts and passes of a search.
class PricedOnce {
 public:
  PricedOnce(const SearchOptions& options, const MemoryLimits& limits, bool several_parts)
      : tell_(options.priced), limits_(limits), several_parts_(several_parts) {}

  void tell(std::span<const PlanCandidate> priced) {
    // Plans of one part come again in a second pass only, and there is none once a plan fits.
    const bool once = !several_parts_ && fitting_;
    if (once) return tell_(priced);
    std::vector<PlanCandidate> fresh;
    for (const PlanCandidate& candidate : priced) {
      fitting_ = fitting_ || limits_.fits(candidate.plan, candidate.estimate.memory.total());
      if (told_.insert(candidate).second) fresh.push_back(candidate);
    }
    tell_(fresh);
  }

 private:
  const std::function<void(std::span<const PlanCandidate>)>& tell_;
  const MemoryLimits& limits_;
  bool several_parts_;
  bool fitting_ = false;
  std::set<PlanCandidate, decltype(&ranks_before)> told_{&ranks_before};
};

/// One pass over all parts.
class SearchPass {
 public:
  SearchPass(const std::vector<SearchPart>& parts, const PlanEvaluator& evaluator,
             const SearchOptions& options, const MemoryLimits& limits)
      : parts_(parts),
        ranking_(evaluator, limits, options.top,
                 tied_ratio(evaluator.problem().framework->constants.paired_sigma), options.front),
        task_{evaluator, options, ranking_, result_} {}

  [[nodiscard]] SearchResult run() {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      ranking_.begin_part(p);
      run_part(parts_[p]);
    }
    const std::size_t first = ranking_.part_of_first();
    {
      const LastMoment moment;
      ranking_.conclude(result_);
    }
    if (result_.completeness == Completeness::Optimal && !result_.ranked.empty()) {
      result_.bound = result_.ranked.front().estimate.step.total();
      result_.claim = claim(first);
    }
    return std::move(result_);
  }

 private:
  void run_part(const SearchPart& part) {
    const std::size_t known = result_.left_out.size();
    try {
      strategies_.push_back(part.make(task_));
      strategies_.back()->run();
    } catch (const Stopped&) {
      result_.completeness = Completeness::Stopped;
    }
    if (parts_.size() > 1) {
      for (std::size_t i = known; i < result_.left_out.size(); ++i) {
        result_.left_out[i] = fmt::format("{}: {}", part.space, result_.left_out[i]);
      }
    }
    if (task_.options.only_fitting()) return;
    SearchCounts& counts = result_.counts;
    const std::int64_t rest = counts.space - counts.evaluated - counts.pruned - counts.unvisited -
                              counts.rejected_total();
    (result_.completeness == Completeness::Optimal ? counts.pruned : counts.unvisited) += rest;
  }

  [[nodiscard]] std::string claim(std::size_t first) const {
    const std::string known = strategies_[first]->claim(result_.ranked.front());
    if (parts_.size() == 1) return known;
    std::vector<std::string> others;
    for (const SearchPart& part : parts_) {
      if (part.space != parts_[first].space) others.push_back(part.space);
    }
    return fmt::format(
        "space {}: {}; {} offered none faster", parts_[first].space,
        known.empty() ? "no plan of it is predicted to be faster than plan 1 by more than a tie"
                      : known,
        fmt::join(others, ", "));
  }

  const std::vector<SearchPart>& parts_;
  PlanRanking ranking_;
  SearchResult result_;
  SearchTask task_;
  std::vector<std::unique_ptr<Strategy>> strategies_;
};

}  // namespace

SearchResult run_search(const std::vector<SearchPart>& parts, const PlanEvaluator& evaluator,
                        const SearchOptions& options, const LegalWalk* misses) {
  const MemoryFit offered = options.only_fitting() ? MemoryFit::Fits : MemoryFit::Tight;
  const MemoryLimits limits(evaluator, MemoryFit::Fits, offered);
  PricedOnce priced(options, limits, parts.size() > 1);
  SearchOptions asked = options;
  if (options.priced) {
    asked.priced = [&](std::span<const PlanCandidate> plans) { priced.tell(plans); };
  }
  SearchResult result = SearchPass(parts, evaluator, asked, limits).run();
  const bool complete = result.completeness == Completeness::Optimal;
  const bool unseen =
      std::ranges::any_of(parts, [](const SearchPart& part) { return !part.offers_tight; });
  if (result.ranked.empty() && offered == MemoryFit::Tight && (result.tight || unseen)) {
    // Nothing fits for sure: what may fit is ranked, and was not priced closely so far.
    const std::optional<PlanCandidate> known = std::exchange(result.tight, std::nullopt);
    if (complete) result = SearchPass(parts, evaluator, asked, {evaluator, MemoryFit::Tight}).run();
    if (result.ranked.empty() && known) result.ranked.push_back(*known);
    if (!result.ranked.empty()) result.admitted = MemoryFit::Tight;
  }
  if (result.ranked.empty() && misses != nullptr && result.completeness == Completeness::Optimal) {
    PlanRanking none(evaluator, limits, 1, 1.0);
    result.misses = nearest_misses({evaluator, asked, none, result}, *misses, options.misses);
  }
  return result;
}

SearchResult search(const PlanEvaluator& evaluator, const SearchSpace& space,
                    const SearchOptions& options) {
  const auto walk = std::make_shared<const LegalWalk>(evaluator, space);
  SearchResult result = run_search({degree_part(space.name, walk)}, evaluator, options, walk.get());
  result.space = space.name;
  return result;
}

}  // namespace plansearch
