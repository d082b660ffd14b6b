// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans of a framework's degrees, linear operators over rings among them.
// Source: collective matmul (Wang et al., ASPLOS 2023); plan/ring_placements.hpp.
// Assumes: rings hide messages and slow kernels: no plan over rings is faster than the kernels of
//          the same plan by role.
// Units: seconds, bytes.
// Checked by: tests/unit/search/ring_search_test.cpp (every plan priced both ways)
#include "search/planner/ring_search.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "plan/ring_placements.hpp"
#include "plansearch/space.hpp"
#include "search/planner/best_staged.hpp"
#include "search/planner/group_degrees.hpp"
#include "search/planner/staged_groups.hpp"
#include "search/strategy.hpp"

namespace plansearch {
namespace {

bool may_run_over_rings(const PlanDegrees& degrees) {
  return degrees.tensor_out > 1 && degrees.tensor() == degrees.tensor_out &&
         degrees.sequence_parallel == SequenceParallel::On;
}

class RingSearch {
 public:
  RingSearch(const PlanEvaluator& evaluator, const StageRequest& request,
             const SearchOptions& options, MemoryFit admitted)
      : evaluator_(evaluator),
        problem_(evaluator.problem()),
        request_(request),
        options_(options),
        deadline_(options) {
    result_.admitted = admitted;
    result_.left_out = {"rings under plans that a bound leaves out without them"};
  }

  UnevenResult run() {
    const auto space = make_space("framework", problem_, request_.pinned, request_.limits);
    if (!std::holds_alternative<SearchSpace>(space)) return std::move(result_);
    look_at_degrees(std::get<SearchSpace>(space));
    look_at_rings();
    return std::move(result_);
  }

 private:
  /// What a plan over rings of these degrees takes at least.
  static Seconds kernels(const PlanCandidate& candidate) {
    return candidate.estimate.step.compute + candidate.estimate.step.recompute;
  }

  void look_at_degrees(const SearchSpace& space) {
    const SearchResult found = collect(evaluator_, space);
    result_.counts.space = static_cast<double>(found.counts.space);
    result_.counts.simulated = found.counts.evaluated;
    if (found.admitted == result_.admitted) {
      const auto by_role = [&](const PlanDegrees& degrees) { return evaluator_.expand(degrees); };
      result_.ranked = staged_groups(problem_, {found.ranked, by_role}, options_.top);
    }
    // Rings keep less than what comes whole: with them plans have room that have none without.
    Problem roomy = problem_;
    roomy.memory_reserve -= problem_.cluster->accelerator.memory;
    (void)collect(PlanEvaluator(roomy), space);
  }

  /// Ranks plans by degrees, and keeps those that may run over rings.
  SearchResult collect(const PlanEvaluator& evaluator, const SearchSpace& space) {
    SearchOptions options = deadline_.left();
    options.misses = 0;
    options.priced = [&](std::span<const PlanCandidate> priced) {
      for (const PlanCandidate& candidate : priced) {
        if (may_run_over_rings(candidate.plan)) {
          by_role_.emplace(candidate.plan, kernels(candidate));
        }
      }
    };
    SearchResult found = search(evaluator, space, options);
    if (found.completeness == Completeness::Stopped) result_.completeness = Completeness::Stopped;
    return found;
  }

  /// Only those that may be faster than what ranks last by role.
  void look_at_rings() {
    std::optional<Seconds> slowest = request_.slowest;
    if (!result_.ranked.empty() && result_.ranked.size() == options_.top) {
      const Seconds last = result_.ranked.back().estimate.step.total();
      slowest = slowest ? std::min(*slowest, last) : last;
    }
    std::vector<PlanCandidate> found;
    for (const auto& [degrees, least] : by_role_) {
      result_.counts.space += 1.0;
      if (slowest && least > *slowest) continue;
      if (deadline_.passed()) {
        result_.completeness = Completeness::Stopped;
        break;
      }
      if (const auto estimate = price(degrees)) found.push_back({degrees, *estimate});
    }
    std::stable_sort(found.begin(), found.end(), ranks_before);
    const auto rings = [&](const PlanDegrees& degrees) { return over_rings(degrees); };
    for (StagedCandidate& candidate : staged_groups(problem_, {found, rings}, options_.top)) {
      result_.ranked.push_back(std::move(candidate));
    }
    std::stable_sort(result_.ranked.begin(), result_.ranked.end(), staged_before);
    if (result_.ranked.size() > options_.top) result_.ranked.resize(options_.top);
  }

  /// Nothing where the plan does not run over rings, or has no room.
  [[nodiscard]] std::optional<Estimate> price(const PlanDegrees& degrees) {
    ++result_.counts.simulated;
    return priced_within(evaluator_.memory_up_to(result_.admitted), evaluator_,
                         over_rings(degrees));
  }

  [[nodiscard]] std::variant<ParallelPlan, Infeasible> over_rings(
      const PlanDegrees& degrees) const {
    const auto rings = ring_choice(*problem_.network, degrees, *problem_.framework);
    if (rings) return placed_plan(problem_, degrees, *rings);
    return Infeasible{.obstacle = Obstacle::FrameworkForbids,
                      .detail = "products do not divide over the ring"};
  }

  const PlanEvaluator& evaluator_;
  const Problem& problem_;
  const StageRequest& request_;
  const SearchOptions& options_;
  Deadline deadline_;
  std::map<PlanDegrees, Seconds> by_role_;  ///< the least that they take over rings
  UnevenResult result_;
};

}  // namespace

UnevenResult search_rings(const PlanEvaluator& evaluator, const StageRequest& request,
                          const SearchOptions& options) {
  return fitting_or_tight(request, [&](MemoryFit admitted) {
    return RingSearch(evaluator, request, options, admitted).run();
  });
}

}  // namespace plansearch
