// SPDX-License-Identifier: Apache-2.0
// Exhaustive search with admissible pruning: the best plans of a space, and proof of how it looked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/evaluation.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/space.hpp"

namespace plansearch {

struct PlanCandidate {
  PlanDegrees plan;  ///< of a plan that is written out, those of its first stage
  Estimate estimate;
  /// The plan written out stage by stage, where degrees alone do not describe it.
  std::shared_ptr<const ParallelPlan> written{};
  bool operator==(const PlanCandidate& other) const;
};

/// The plan written out. InternalError where the degrees stand for none.
[[nodiscard]] ParallelPlan whole_plan(const PlanEvaluator& evaluator,
                                      const PlanCandidate& candidate);

/// Median step time, then peak memory, then the plan itself: no two different plans compare equal.
[[nodiscard]] bool ranks_before(const PlanCandidate& a, const PlanCandidate& b);

/// The candidates no other beats in both step time and memory, fastest first.
[[nodiscard]] std::vector<PlanCandidate> pareto_front(std::vector<PlanCandidate> candidates);

/// Adds a candidate to a front, fastest first, and removes those it beats in both.
void add_to_front(std::vector<PlanCandidate>& front, const PlanCandidate& candidate);

/// The chance that `a` really is faster than `b`, when their errors share everything but a
/// log-normal remainder of relative size `paired_sigma`.
[[nodiscard]] double probability_faster(Seconds a, Seconds b, double paired_sigma);

/// Below this chance two plans are reported as a tie.
inline constexpr double kTieProbability = 0.8;

/// The ratio of two step times from which on the plans are not tied.
[[nodiscard]] double tied_ratio(double paired_sigma);

/// The part that variants of one plan share: everything but the chunks of its pipeline, their
/// order, how keys and values meet under context parallelism, whether optimizer states are sharded,
/// and what is on the host.
[[nodiscard]] PlanDegrees plan_family(PlanDegrees plan);

/// A plan and its variants: the simplest one first, the others by time.
using PlanGroup = std::vector<PlanCandidate>;

/// The `top` best groups of ranked plans. The plan that stands for a group is the simplest one that
/// is no slower than the next group's fastest: the order does not depend on `top`. Plans of one
/// family that do not tie with its fastest make further groups.
[[nodiscard]] std::vector<PlanGroup> grouped_variants(const std::vector<PlanCandidate>& ranked,
                                                      double paired_sigma, std::size_t top);

enum class Pruning { On, Off };

/// How far a search is.
struct SearchProgress {
  double share;                 ///< of the space that is done, 0..1
  std::optional<Seconds> best;  ///< the fastest step found
};

struct SearchOptions {
  /// Families: plans that differ in chunks and order only are one. 0: any plan that fits will do.
  std::size_t top = 10;
  int threads = 1;
  Pruning pruning = Pruning::On;
  std::size_t misses = 5;  ///< nearest misses to name when nothing fits
  /// Whether the Pareto front is asked for. Plans that rank are the same without.
  bool front = true;
  /// Whether plans that fit are asked for and nothing of others: none that may fit, no counts.
  bool fitting = false;
  /// The same; it is so where any plan will do.
  [[nodiscard]] bool only_fitting() const { return fitting || top == 0; }
  /// Whether plans are asked for that run all layers again and may rank where fewer do.
  bool recomputing = false;
  /// Told how far the search is, between batches, from the calling thread.
  std::function<void(const SearchProgress&)> progress{};
  /// Told every plan that is priced, once, simulated, in an order that does not depend on threads;
  /// from the calling thread. Plans that bounds or memory exclude are never priced.
  std::function<void(std::span<const PlanCandidate>)> priced{};
};

/// A user's decisions about the plans of a space.
struct SearchRequest {
  PinnedDegrees pinned;
  DegreeLimits limits;
  std::optional<int> micro_batches{};  ///< per step; absent: any number
  /// Placements of single operators that a plan file decides, on the network of the problem.
  /// Without factors they follow the tensor degree. Null: nothing.
  std::shared_ptr<const Placements> placements{};
  /// Side of a square of devices over which every linear operator of the layers runs; 0: none.
  int square = 0;
  /// Selectors of blocks that lie on the devices of all stages in every plan.
  std::vector<std::string> shared_blocks{};

  /// Whether nothing that was asked for stands against this value.
  [[nodiscard]] bool admits(Degree degree, int value) const {
    return pinned.get(degree).value_or(value) == value && limits.admits(degree, value);
  }
  /// Whether nothing was asked for at all.
  [[nodiscard]] bool is_open(Degree degree) const {
    return !pinned.has(degree) && !limits.has(degree);
  }
};

/// How every plan of the space was dealt with. The counts sum to `space`.
struct SearchCounts {
  std::int64_t space = 0;      ///< plans in the space; the largest number for those of more
  std::int64_t evaluated = 0;  ///< priced by closed form
  std::int64_t pruned = 0;     ///< a bound showed they cannot enter the answer
  std::int64_t subtrees = 0;   ///< of plans that one bound pruned together
  std::int64_t classes = 0;    ///< whose kernels and messages got a price
  std::int64_t unvisited = 0;  ///< left when the search was stopped
  std::array<std::int64_t, kObstacleCount> rejected{};
  std::int64_t simulated = 0;  ///< of the evaluated ones, priced by simulation as well
  [[nodiscard]] std::int64_t rejected_total() const;
  bool operator==(const SearchCounts&) const = default;
};

/// A plan that does not run, and by how little.
struct NearMiss {
  PlanDegrees plan;
  Estimate estimate;
  Bytes limit;  ///< predicted peaks up to it run more likely than not
};

enum class Completeness { Optimal, Stopped };

struct SearchResult {
  std::string space;  ///< its name
  /// Best first, simulated: the best families, and every plan that ties with the last of them.
  std::vector<PlanCandidate> ranked;
  MemoryFit admitted = MemoryFit::Fits;  ///< of ranked plans: Tight where nothing fits
  std::optional<PlanCandidate> tight;    ///< the fastest tight plan, where it beats all that fit
  std::vector<PlanCandidate> front;      ///< Pareto front over step time and memory
  /// Plans that run all layers again, where they are asked for: those that may rank with fewer,
  /// unless another such plan is better in step, memory and the bound of those with fewer.
  std::vector<PlanCandidate> recomputing;
  std::vector<NearMiss> misses;  ///< plans that exceed memory least, when nothing fits
  SearchCounts counts;
  std::int64_t families = 0;  ///< groups of plans looked into: the work it took, on any machine
  Completeness completeness = Completeness::Optimal;
  /// The proof about the first plan, where it is not just the optimum of the space.
  std::string claim{};
  std::vector<std::string> left_out{};  ///< plans outside the space, and why
  /// No plan is faster than this; zero where nothing is known of plans that were not priced.
  Seconds bound{};
};

/// The same result for any thread count. Never prints. The stop token of the calling thread
/// (stop_token.hpp) may cut it short: the result then holds the best so far, and says so.
[[nodiscard]] SearchResult search(const PlanEvaluator& evaluator, const SearchSpace& space,
                                  const SearchOptions& options);

/// The same in a space of any kind by its name; why it has no plan at all. InputError for a name
/// that no space has, and where the framework runs none of its plans.
[[nodiscard]] std::variant<SearchResult, Infeasible> search(const PlanEvaluator& evaluator,
                                                            std::string_view space,
                                                            const SearchRequest& request,
                                                            const SearchOptions& options);

}  // namespace plansearch
