// SPDX-License-Identifier: Apache-2.0
// Computes: one ranking of the plans that several spaces rank.
// Source: the searches of those spaces.
// Assumes: a sequence slower than all that is ranked is of no interest.
// Units: seconds, bytes.
// Checked by: tests/unit/search/full_search_test.cpp (the best of its parts, each asked alone)
#include "search/planner/full_search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plansearch/space.hpp"
#include "search/fewest_layers.hpp"
#include "search/planner/end_layers.hpp"
#include "search/planner/staged_groups.hpp"
#include "search/planner/temporal_search.hpp"
#include "search/strategy.hpp"

namespace plansearch {
namespace {

/// The plans of a space of degrees, as plans of stages; those that recompute all layers also with
/// as few as have room, where nobody says what is recomputed.
UnevenResult search_degrees(const PlanEvaluator& evaluator, const SearchSpace& space,
                            const StageRequest& request, SearchOptions options) {
  options.misses = 0;
  SearchResult found = search(evaluator, space, options);
  if (request.is_open(Degree::Recompute) && request.is_open(Degree::RecomputeLayers)) {
    add_fewest_layers(evaluator, found);
  }
  UnevenResult result;
  result.admitted = found.admitted;
  result.completeness = found.completeness;
  result.counts.space = static_cast<double>(found.counts.space);
  result.counts.simulated = found.counts.simulated;
  result.left_out = space.left_out;
  const auto plan_of = [&](const PlanDegrees& degrees) { return evaluator.expand(degrees); };
  for (const PlanCandidate& member : found.front) {
    result.front.push_back({std::get<ParallelPlan>(plan_of(member.plan)), member.estimate});
  }
  result.ranked =
      staged_groups(evaluator.problem(), {std::move(found.ranked), plan_of}, options.top);
  return result;
}

class FullSearch {
 public:
  FullSearch(const PlanEvaluator& evaluator, const StageRequest& request,
             const SearchOptions& options)
      : evaluator_(evaluator), request_(request), options_(options), deadline_(options) {
    result_.left_out.clear();
  }

  UnevenResult run() {
    const Framework& framework = *evaluator_.problem().framework;
    const auto made = make_space("4d", evaluator_.problem(), request_.pinned, request_.limits);
    const auto* space = std::get_if<SearchSpace>(&made);
    if (space != nullptr) add("4d", search_degrees(evaluator_, *space, request_, deadline_.left()));
    if (framework.own_layers != OwnLayers::None) {
      add("layers", search_end_layers(evaluator_, beside_others(), deadline_.left()));
    }
    if (runs_in_steps(framework, request_)) {
      add("temporal", search_temporal(evaluator_, with_pipelines(space), deadline_.left()));
    }
    conclude();
    return std::move(result_);
  }

 private:
  struct Ranked {
    StagedCandidate candidate;
    std::size_t part = 0;
    MemoryFit admitted = MemoryFit::Fits;
  };
  struct Part {
    std::string space;
    std::string claim;
  };

  /// Pipelines of every depth, where nothing is said of them.
  [[nodiscard]] StageRequest with_pipelines(const SearchSpace* space) const {
    StageRequest request = beside_others();
    if (request.is_open(Degree::Pipeline) && space != nullptr) {
      request.limits.allow(Degree::Pipeline, space->dimension(Degree::Pipeline).values);
    }
    return request;
  }

  /// Where enough plans fit, no slower ones.
  [[nodiscard]] StageRequest beside_others() const {
    StageRequest request = request_;
    const bool enough = options_.top > 0 && ranked_.size() >= options_.top &&
                        ranked_[options_.top - 1].admitted == MemoryFit::Fits;
    if (enough) request.slowest = ranked_[options_.top - 1].candidate.estimate.step.total();
    return request;
  }

  void add(std::string space, UnevenResult part) {
    result_.counts.space += part.counts.space;
    result_.counts.stages += part.counts.stages;
    result_.counts.extended += part.counts.extended;
    result_.counts.simulated += part.counts.simulated;
    if (part.completeness == Completeness::Stopped) result_.completeness = Completeness::Stopped;
    for (const std::string& words : part.left_out) {
      result_.left_out.push_back(fmt::format("{}: {}", space, words));
    }
    for (const StagedCandidate& member : part.front) add_to_front(result_.front, member);
    for (StagedCandidate& candidate : part.ranked) {
      const bool known = std::any_of(ranked_.begin(), ranked_.end(), [&](const Ranked& other) {
        return other.candidate.plan == candidate.plan;
      });
      if (!known) ranked_.push_back({std::move(candidate), parts_.size(), part.admitted});
    }
    parts_.push_back({std::move(space), std::move(part.claim)});
    std::stable_sort(ranked_.begin(), ranked_.end(), [](const Ranked& a, const Ranked& b) {
      if (a.admitted != b.admitted) return a.admitted == MemoryFit::Fits;
      return staged_before(a.candidate, b.candidate);
    });
  }

  void conclude() {
    if (ranked_.empty()) return;
    result_.admitted = ranked_.front().admitted;
    if (result_.completeness == Completeness::Optimal) result_.claim = claim();
    for (Ranked& ranked : ranked_) {
      if (result_.ranked.size() == options_.top || ranked.admitted != result_.admitted) break;
      result_.ranked.push_back(std::move(ranked.candidate));
    }
  }

  [[nodiscard]] std::string claim() const {
    const Part& first = parts_[ranked_.front().part];
    std::vector<std::string> others;
    for (const Part& part : parts_) {
      if (part.space != first.space) others.push_back(part.space);
    }
    const std::string known =
        first.claim.empty() ? "no plan of it is predicted to be faster than plan 1" : first.claim;
    std::string text = fmt::format("space {}: {}", first.space, known);
    if (!others.empty()) text += fmt::format("; {} offered none faster", fmt::join(others, ", "));
    return text;
  }

  const PlanEvaluator& evaluator_;
  const StageRequest& request_;
  const SearchOptions& options_;
  Deadline deadline_;
  std::vector<Ranked> ranked_;  ///< fastest first
  std::vector<Part> parts_;
  UnevenResult result_;
};

}  // namespace

UnevenResult search_full(const PlanEvaluator& evaluator, const StageRequest& request,
                         const SearchOptions& options) {
  return FullSearch(evaluator, request, options).run();
}

}  // namespace plansearch
