// SPDX-License-Identifier: Apache-2.0
// How plans are found: strategies offer plans of a space to one ranking; one driver runs them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plansearch/search.hpp"
#include "plansearch/stop_token.hpp"
#include "search/ranking/plan_ranking.hpp"
#include "search/walk/legal_walk.hpp"

namespace plansearch {

/// What a strategy works on: one pass over a space, and where its plans go.
struct SearchTask {
  const PlanEvaluator& evaluator;
  const SearchOptions& options;
  PlanRanking& ranking;
  SearchResult& result;  ///< for counts, families, completeness, left_out and bound

  [[nodiscard]] const MemoryLimits& limits() const { return ranking.limits(); }
};

/// Finds plans of one space. Made for one pass.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Offers plans to the ranking, adds those of its space to `counts.space` and those it has dealt
  /// with to the other counts. Ends by Stopped when there is no time left.
  virtual void run() = 0;
  /// What is known of the first plan of the answer, which this strategy found; empty where no plan
  /// of its space is faster.
  [[nodiscard]] virtual std::string claim(const PlanCandidate& /*first*/) const { return {}; }
};

/// A strategy of a search.
struct SearchPart {
  std::string space;  ///< whose plans it finds
  std::function<std::unique_ptr<Strategy>(const SearchTask&)> make;
  bool offers_tight = false;  ///< tight plans too, where others fit
};

/// Visits every plan of a space of degrees, subtrees that cannot enter the answer as one.
[[nodiscard]] SearchPart degree_part(std::string space, std::shared_ptr<const LegalWalk> walk);

/// Plans of all parts in one ranking; where none fits, those that may fit, or the nearest misses of
/// a walk, if there is one.
[[nodiscard]] SearchResult run_search(const std::vector<SearchPart>& parts,
                                      const PlanEvaluator& evaluator, const SearchOptions& options,
                                      const LegalWalk* misses);

/// The plans that exceed memory least, nearest first; for spaces in which nothing fits.
[[nodiscard]] std::vector<NearMiss> nearest_misses(const SearchTask& task, const LegalWalk& walk,
                                                   std::size_t count);

}  // namespace plansearch
