// SPDX-License-Identifier: Apache-2.0
// How plans are found: strategies offer plans of a space to one ranking; one driver runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plansearch/framework.hpp"
#include "plansearch/search.hpp"
#include "plansearch/stop_token.hpp"
#include "search/ranking/plan_ranking.hpp"
#include "search/walk/legal_walk.hpp"

namespace plansearch {

enum class PartitionSpace : std::uint8_t;  // partition/partition_options.hpp

/// One pass over a space, and the ranking that its plans go to.
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
  /// A proof about the first plan of the answer, which this strategy found; empty where no plan of
  /// its space is faster.
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

/// Plans that exceed memory least, nearest first; for spaces in which nothing fits.
[[nodiscard]] std::vector<NearMiss> nearest_misses(const SearchTask& task, const LegalWalk& walk,
                                                   std::size_t count);

/// Whether a space cuts operators of the tensor group one by one, so that its degree is not judged
/// by the roles of dimensions.
[[nodiscard]] bool cuts_one_by_one(std::string_view space, const Framework& framework);

/// Plans of degrees whose operators are placed, or blocks shared, as a plan file says, or lie over
/// squares of devices. Prices the plans of a walk with the placements, squares and shared blocks of
/// the request, the lowest bound first, as far as they may rank. A plan that they do not fit is
/// rejected.
[[nodiscard]] SearchPart constrained_part(std::shared_ptr<const LegalWalk> walk,
                                          SearchRequest request);

/// The plan of these degrees under that request: one of those that such a search prices.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> constrained_plan(
    const PlanEvaluator& evaluator, const SearchRequest& request, const PlanDegrees& degrees);

/// Plans of equal stages but for the layers of the first and the last one, as frameworks let users
/// say them: every assignment of the layers so that the stages between the ends hold equal
/// numbers, for all degrees of the framework; the even one is among them. InputError where the
/// framework has no such options.
[[nodiscard]] SearchPart end_layers_part(const Problem& problem, const SearchRequest& request);

inline constexpr std::int64_t kMostExtended = 200'000;

/// Plans whose stages may differ in layers, devices, degrees and recomputation, by their simulated
/// step. The best plan of equal stages comes first, so that no answer is worse. Then plans are
/// taken in the order of an admissible bound and simulated, until the bound exceeds the best: that
/// one is optimal. Beyond `most_extended` partial plans, or after thousands of whole ones in vain,
/// the search stops and says how far it can be from the optimum.
[[nodiscard]] SearchPart uneven_part(const SearchRequest& request,
                                     std::int64_t most_extended = kMostExtended);

/// Whether the framework runs squares over a tensor group that the request admits.
[[nodiscard]] bool runs_squares(const Framework& framework, const SearchRequest& request);

/// Plans whose operators are cut one by one, along one dimension or by sequences of dimensions and
/// squares of devices. For every tensor degree that the options cut, every micro-batch and
/// recompute level: the choice of least sum that has room, with rings hidden and not, where it may
/// rank; beside sequences the plan of the same degrees by role. Pipelines as asked for. Ranks are
/// by the priced step. InputError for sequences over a tensor degree that is not a power of two.
[[nodiscard]] SearchPart sequence_part(std::string space, const SearchRequest& request,
                                       PartitionSpace sequences);

/// Adds, for every ranked plan and every one of `recomputing` that recomputes all layers because it
/// has to, the one that recomputes as few layers of every chunk as have room, where the framework
/// can and it ranks. Returns how many plans were looked into.
int add_fewest_layers(const PlanEvaluator& evaluator, SearchResult& result);

}  // namespace plansearch
