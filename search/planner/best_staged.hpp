// SPDX-License-Identifier: Apache-2.0
// Computes: the best whole plans of a search in order of bounds, one of every family.
// Source: plans by PlanEvaluator::evaluate.
// Assumes: bounds hold; a family is what its key says, such as plans that differ in layers only.
// Units: seconds, bytes.
// Checked by: tests/unit/search/uneven_search_test.cpp, end_layers_test.cpp (equal to pricing every
//             plan).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "search/planner/uneven_search.hpp"

namespace plansearch {

/// The price of a plan that runs and needs no more than that.
[[nodiscard]] inline std::optional<Estimate> priced_within(
    Bytes limit, const PlanEvaluator& evaluator,
    const std::variant<ParallelPlan, Infeasible>& made) {
  const auto* plan = std::get_if<ParallelPlan>(&made);
  if (plan == nullptr) return std::nullopt;
  Evaluation evaluation = evaluator.evaluate(*plan);
  auto* estimate = std::get_if<Estimate>(&evaluation);
  if (estimate == nullptr || estimate->memory.total() > limit) return std::nullopt;
  return std::move(*estimate);
}

template <typename Family>
class BestStaged {
 public:
  /// The evaluator and the options are referenced.
  /// Plans slower than `slowest`, if any, are of no interest.
  BestStaged(const PlanEvaluator& evaluator, const SearchOptions& options, MemoryFit admitted,
             std::optional<Seconds> slowest = std::nullopt)
      : evaluator_(evaluator),
        options_(options),
        limit_(evaluator.memory_up_to(admitted)),
        slowest_(slowest) {}

  [[nodiscard]] Bytes limit() const { return limit_; }
  /// Nothing yet, or the step time of the fastest plan so far.
  [[nodiscard]] std::optional<Seconds> best() const { return best_; }

  /// Whether plans of this bound are of no interest: they cannot be the best, and are much slower
  /// than it or no better than what is ranked.
  [[nodiscard]] bool is_late(Seconds bound) const {
    constexpr double kInteresting = 1.25;
    if (slowest_ && bound > *slowest_) return true;
    if (!best_ || bound <= *best_) return false;
    return families_.size() >= options_.top || bound > *best_ * kInteresting;
  }

  /// Whether a plan of this bound can be among those that are ranked.
  [[nodiscard]] bool may_rank(const Family& family, Seconds bound) const {
    if (last_ranked_ && bound > *last_ranked_) return false;
    if (slowest_ && bound > *slowest_) return false;
    const auto known = families_.find(family);
    return known == families_.end() || bound < known->second.estimate.step.total();
  }

  /// Whether a plan may be ranked by its time, and has room for that. From any thread.
  struct Verdict {
    bool in_time = false;
    bool has_room = false;
  };
  [[nodiscard]] Verdict judge(const std::variant<ParallelPlan, Infeasible>& made,
                              const Family& family) const {
    const auto* plan = std::get_if<ParallelPlan>(&made);
    if (plan == nullptr) return {};
    const Evaluation evaluation = evaluator_.evaluate(*plan);
    if (const auto* estimate = std::get_if<Estimate>(&evaluation)) {
      return {may_rank(family, estimate->step.total()), estimate->memory.total() <= limit_};
    }
    const auto& too_large = std::get<InfeasiblePlan>(evaluation).estimate;
    return {too_large && may_rank(family, too_large->step.total()), false};
  }

  /// Prices the plan, where there is one, and keeps it if it is the fastest of its family that has
  /// room.
  void offer(const std::variant<ParallelPlan, Infeasible>& made, const Family& family) {
    const auto* plan = std::get_if<ParallelPlan>(&made);
    if (plan == nullptr) return;
    ++simulated_;
    const auto estimate = priced_within(limit_, evaluator_, made);
    if (!estimate) return;
    const Seconds time = estimate->step.total();
    if (!best_ || time < *best_) {
      best_ = time;
      if (options_.progress) options_.progress({0.0, time});
    }
    add_to_front(front_, {*plan, *estimate});
    const auto [known, is_new] = families_.try_emplace(family, StagedCandidate{*plan, *estimate});
    if (!is_new && time < known->second.estimate.step.total()) known->second = {*plan, *estimate};
    if (!last_ranked_ || time < *last_ranked_) find_last_ranked();
  }

  /// Moves what was found into the result, fastest first; the bound is set where all was looked at.
  void conclude(UnevenResult& result) {
    result.counts.simulated = simulated_;
    result.front = std::move(front_);
    for (auto& [family, candidate] : families_) result.ranked.push_back(std::move(candidate));
    std::stable_sort(result.ranked.begin(), result.ranked.end(), staged_before);
    if (result.ranked.size() > options_.top) result.ranked.resize(options_.top);
    if (result.completeness == Completeness::Optimal && best_) result.bound = *best_;
  }

 private:
  void find_last_ranked() {
    if (options_.top == 0 || families_.size() < options_.top) return;
    std::vector<Seconds> times;
    for (const auto& [family, candidate] : families_) {
      times.push_back(candidate.estimate.step.total());
    }
    const auto last = times.begin() + static_cast<std::ptrdiff_t>(options_.top) - 1;
    std::nth_element(times.begin(), last, times.end());
    last_ranked_ = *last;
  }

  const PlanEvaluator& evaluator_;
  const SearchOptions& options_;
  Bytes limit_;
  std::optional<Seconds> slowest_;
  std::optional<Seconds> best_;
  std::optional<Seconds>
      last_ranked_;  ///< time of the last that is ranked, where so many are known
  std::map<Family, StagedCandidate> families_;
  std::vector<StagedCandidate> front_;
  std::int64_t simulated_ = 0;
};

/// `search` among plans that fit; where there are none, here or beside it, among those that may.
template <typename Search>
[[nodiscard]] UnevenResult fitting_or_tight(const StageRequest& request, Search search) {
  UnevenResult result = search(MemoryFit::Fits);
  const bool enough = !result.ranked.empty() || request.slowest.has_value();
  if (enough || result.completeness == Completeness::Stopped) return result;
  return search(MemoryFit::Tight);
}

}  // namespace plansearch
