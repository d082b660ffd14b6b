// SPDX-License-Identifier: Apache-2.0
// Computes: the best K simulated families of plans and the Pareto front of all that are offered.
// Source: branch and bound: a contender whose bound exceeds the K-th best is never simulated.
// Assumes: bound <= simulation (tests/unit/evaluate/bound_test.cpp).
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp
#include "search/judge.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace plansearch {
namespace {

void sort_by_promise(std::vector<Contender>& contenders) {
  std::sort(contenders.begin(), contenders.end(), [](const Contender& a, const Contender& b) {
    return ranks_before(a.candidate, b.candidate);
  });
}

}  // namespace

bool Thresholds::exclude(const PlanBound& bound) const {
  if (!time || bound.step_time <= *time) return false;
  for (const PlanCandidate& member : front) {
    if (member.estimate.step.total() > bound.step_time) return false;
    if (member.estimate.memory.total() <= bound.memory) return true;
  }
  return false;
}

std::optional<Seconds> Judge::fastest() const {
  if (best_.empty()) return std::nullopt;
  return best_.front().estimate.step.total();
}

void Judge::take(std::vector<Contender> contenders) {
  const auto tight =
      std::stable_partition(contenders.begin(), contenders.end(),
                            [](const Contender& c) { return c.fit == MemoryFit::Fits; });
  std::vector<Contender> beside(std::make_move_iterator(tight),
                                std::make_move_iterator(contenders.end()));
  contenders.erase(tight, contenders.end());
  take_fitting(std::move(contenders));
  take_tight(std::move(beside));
}

void Judge::take_fitting(std::vector<Contender> contenders) {
  std::vector<PlanCandidate> pool = std::move(thresholds_.front);
  for (const Contender& contender : contenders) pool.push_back(contender.candidate);
  thresholds_.front = pareto_front(std::move(pool));
  const auto is_late = [&](const Contender& contender) {
    return thresholds_.time && contender.bound > *thresholds_.time;
  };
  std::erase_if(contenders, is_late);
  sort_by_promise(contenders);
  for (const Contender& contender : contenders) {
    if (is_late(contender)) continue;  // thresholds tighten on the way
    if (is_known(contender.candidate.plan)) continue;
    insert(simulated(contender.candidate.plan));
    ++simulations_;
  }
}

void Judge::take_tight(std::vector<Contender> contenders) {
  const auto is_late = [&](const Contender& contender) {
    return thresholds_.exclude_tight(contender.bound);
  };
  std::erase_if(contenders, is_late);
  sort_by_promise(contenders);
  for (const Contender& contender : contenders) {
    if (is_late(contender)) continue;
    if (tight_ && tight_->plan == contender.candidate.plan) continue;
    PlanCandidate candidate = simulated(contender.candidate.plan);
    ++simulations_;
    note_time(candidate);
    if (!tight_ || ranks_before(candidate, *tight_)) tight_ = std::move(candidate);
  }
}

void Judge::note_time(const PlanCandidate& candidate) {
  const Seconds time = candidate.estimate.step.total();
  if (!thresholds_.best || time < *thresholds_.best) thresholds_.best = time;
}

PlanCandidate Judge::simulated(const PlanDegrees& plan) {
  const auto profile = evaluator_.profile(plan);
  return {plan, evaluator_.simulate(*profile, plan, *workspace_)};
}

bool Judge::is_known(const PlanDegrees& plan) const {
  return std::any_of(best_.begin(), best_.end(),
                     [&](const PlanCandidate& known) { return known.plan == plan; });
}

void Judge::insert(PlanCandidate candidate) {
  note_time(candidate);
  const auto place = std::upper_bound(best_.begin(), best_.end(), candidate, ranks_before);
  note_leader(candidate);
  best_.insert(place, std::move(candidate));
  if (leader_times_.size() < top_) return;
  thresholds_.time = leader_times_[top_ - 1] * slack_;
  while (best_.back().estimate.step.total() > *thresholds_.time) best_.pop_back();
}

void Judge::note_leader(const PlanCandidate& candidate) {
  const Seconds time = candidate.estimate.step.total();
  const auto [leader, is_new] = leaders_.emplace(plan_family(candidate.plan), time);
  if (!is_new) {
    if (leader->second <= time) return;
    leader_times_.erase(
        std::lower_bound(leader_times_.begin(), leader_times_.end(), leader->second));
    leader->second = time;
  }
  leader_times_.insert(std::upper_bound(leader_times_.begin(), leader_times_.end(), time), time);
}

void Judge::conclude(SearchResult& result) {
  for (PlanCandidate& member : thresholds_.front) member = simulated(member.plan);
  result.front = pareto_front(std::move(thresholds_.front));
  const bool faster = tight_ && (best_.empty() || tight_->estimate.step.total() <
                                                      best_.front().estimate.step.total());
  if (faster) result.tight = std::move(tight_);
  result.ranked = std::move(best_);
  result.counts.simulated = simulations_;
}

}  // namespace plansearch
