// SPDX-License-Identifier: Apache-2.0
// Computes: the best K simulated plans and the Pareto front of all that are offered.
// Source: branch and bound: a contender whose bound exceeds the K-th best is never simulated.
// Assumes: bound <= simulation (tests/unit/evaluate/bound_test.cpp).
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp
#include "search/judge.hpp"

#include <algorithm>
#include <utility>

namespace plansearch {

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
  std::vector<PlanCandidate> pool = std::move(thresholds_.front);
  for (const Contender& contender : contenders) pool.push_back(contender.candidate);
  thresholds_.front = pareto_front(std::move(pool));
  const auto is_late = [&](const Contender& contender) {
    return thresholds_.time && contender.bound > *thresholds_.time;
  };
  std::erase_if(contenders, is_late);
  std::sort(contenders.begin(), contenders.end(), [](const Contender& a, const Contender& b) {
    return ranks_before(a.candidate, b.candidate);
  });
  for (const Contender& contender : contenders) {
    if (is_late(contender)) continue;  // thresholds tighten on the way
    if (is_known(contender.candidate.plan)) continue;
    insert(simulated(contender.candidate.plan));
    ++simulations_;
  }
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
  const auto place = std::upper_bound(best_.begin(), best_.end(), candidate, ranks_before);
  best_.insert(place, std::move(candidate));
  if (best_.size() > top_) best_.pop_back();
  if (best_.size() == top_) thresholds_.time = best_.back().estimate.step.total();
}

void Judge::conclude(SearchResult& result) {
  for (PlanCandidate& member : thresholds_.front) member = simulated(member.plan);
  result.front = pareto_front(std::move(thresholds_.front));
  result.ranked = std::move(best_);
  result.counts.simulated = simulations_;
}

}  // namespace plansearch
