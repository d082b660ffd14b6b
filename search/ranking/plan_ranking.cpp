// SPDX-License-Identifier: Apache-2.0
// Computes: the best K simulated families of plans and the Pareto front of all that are offered.
// Source: branch and bound: a contender whose bound exceeds the K-th best is never simulated.
// Assumes: bound <= simulation (tests/unit/evaluate/bound_test.cpp).
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp
#include "search/ranking/plan_ranking.hpp"

#include <iterator>
#include <utility>

#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

/// Bounds and prices add the same parts up in other orders: a bound can be an exact price, rounded
/// up.
constexpr double kExact = 1.0 - 1e-12;

/// Whether a member of a Pareto front, fastest first, is faster and needs no more memory.
bool is_beaten(const PlanBound& bound, const std::vector<PlanCandidate>& front) {
  // Degrees decide which of two plans equal in time and memory the front keeps.
  const Seconds least = bound.step_time * kExact;
  // The slowest of the faster plans needs the least memory.
  const auto slower = std::partition_point(
      front.begin(), front.end(),
      [&](const PlanCandidate& member) { return member.estimate.step.total() < least; });
  return slower != front.begin() && (slower - 1)->estimate.memory.total() <= bound.memory;
}

void sort_by_promise(std::vector<RankedCandidate>& contenders) {
  std::ranges::sort(contenders, [](const RankedCandidate& a, const RankedCandidate& b) {
    return ranks_before(a.candidate, b.candidate);
  });
}

}  // namespace

bool Thresholds::exclude(const PlanBound& bound) const {
  if (!time || bound.step_time * kExact <= *time) return false;
  return !keeps_front || is_beaten(bound, front);
}

bool Thresholds::exclude_recomputing(const PlanBound& bound, Seconds fewer) const {
  if (time && fewer * kExact > *time) return true;
  return std::ranges::any_of(recomputing, [&](const RecomputingPlan& known) {
    const Estimate& estimate = known.candidate.estimate;
    return known.fewer <= fewer && estimate.step.total() < bound.step_time * kExact &&
           estimate.memory.total() <= bound.memory;
  });
}

std::optional<Seconds> PlanRanking::fastest() const {
  if (best_.empty()) return std::nullopt;
  return best_.front().candidate.estimate.step.total();
}

std::optional<Seconds> PlanRanking::last_leader() const {
  if (top_ == 0 || leader_times_.size() < top_) return std::nullopt;
  return leader_times_[top_ - 1];
}

std::optional<Seconds> PlanRanking::leader_of(const PlanFamily& family) const {
  const auto leader = leaders_.find(family);
  if (leader == leaders_.end()) return std::nullopt;
  return leader->second;
}

void PlanRanking::take(std::vector<RankedCandidate> contenders) {
  const auto tight =
      std::stable_partition(contenders.begin(), contenders.end(),
                            [](const RankedCandidate& c) { return c.fit == MemoryFit::Fits; });
  std::vector<RankedCandidate> beside(std::make_move_iterator(tight),
                                      std::make_move_iterator(contenders.end()));
  contenders.erase(tight, contenders.end());
  take_fitting(std::move(contenders));
  take_tight(std::move(beside));
}

void PlanRanking::take(PlanCandidate simulated, const PlanFamily& family) {
  if (!limits_.fits(simulated.plan, simulated.estimate.memory.total())) {
    return take_tight(std::move(simulated));
  }
  if (thresholds_.keeps_front) add_to_front(thresholds_.front, simulated);
  if (is_known(simulated)) return;
  insert(std::move(simulated), family);
}

void PlanRanking::take_fitting(std::vector<RankedCandidate> contenders) {
  if (thresholds_.keeps_front) {
    std::vector<PlanCandidate> pool = std::move(thresholds_.front);
    for (const RankedCandidate& contender : contenders) pool.push_back(contender.candidate);
    thresholds_.front = pareto_front(std::move(pool));
  }
  for (const RankedCandidate& contender : contenders) {
    if (contender.fewer) note_recomputing(contender);
  }
  const auto is_late = [&](const RankedCandidate& contender) {
    return thresholds_.time && contender.bound > *thresholds_.time;
  };
  std::erase_if(contenders, is_late);
  sort_by_promise(contenders);
  for (const RankedCandidate& contender : contenders) {
    if (is_late(contender)) continue;  // thresholds tighten on the way
    const PlanDegrees& plan = contender.candidate.plan;
    if (is_known(plan)) continue;
    if (auto candidate = simulated(plan)) insert(*std::move(candidate), {plan_family(plan)});
  }
}

void PlanRanking::take_tight(std::vector<RankedCandidate> contenders) {
  const auto is_late = [&](const RankedCandidate& contender) {
    return thresholds_.exclude_tight(contender.bound);
  };
  std::erase_if(contenders, is_late);
  sort_by_promise(contenders);
  for (const RankedCandidate& contender : contenders) {
    if (is_late(contender)) continue;
    if (tight_ && !tight_->written && tight_->plan == contender.candidate.plan) continue;
    if (auto candidate = simulated(contender.candidate.plan)) take_tight(*std::move(candidate));
  }
}

void PlanRanking::take_tight(PlanCandidate simulated) {
  note_time(simulated);
  if (!tight_ || ranks_before(simulated, *tight_)) tight_ = std::move(simulated);
}

void PlanRanking::note_time(const PlanCandidate& candidate) {
  const Seconds time = candidate.estimate.step.total();
  if (!thresholds_.best || time < *thresholds_.best) thresholds_.best = time;
}

std::optional<PlanCandidate> PlanRanking::simulated(const PlanDegrees& plan) {
  ++simulations_;
  const auto profile = evaluator_.profile(plan);
  try {
    return PlanCandidate{plan, evaluator_.simulate(*profile, plan, *workspace_)};
  } catch (const SimulationLimit&) {
    return std::nullopt;
  }
}

bool PlanRanking::is_known(const PlanDegrees& plan) const {
  return std::ranges::any_of(best_, [&](const Ranked& known) {
    return !known.candidate.written && known.candidate.plan == plan;
  });
}

bool PlanRanking::is_known(const PlanCandidate& candidate) const {
  if (!candidate.written) return is_known(candidate.plan);
  return std::ranges::any_of(best_, [&](const Ranked& known) {
    const Estimate& estimate = known.candidate.estimate;
    if (estimate.step.total() != candidate.estimate.step.total()) return false;
    return whole_plan(evaluator_, known.candidate) == *candidate.written;
  });
}

void PlanRanking::insert(PlanCandidate candidate, const PlanFamily& family) {
  note_time(candidate);
  const Seconds time = candidate.estimate.step.total();
  if (candidate.written) {
    const auto known = std::ranges::find_if(best_, [&](const Ranked& other) {
      return other.candidate.written && other.family == family;
    });
    if (known != best_.end()) {
      if (known->candidate.estimate.step.total() <= time) return;
      best_.erase(known);
    }
  }
  note_leader(family, time);
  const auto place = std::ranges::upper_bound(best_, candidate, ranks_before, &Ranked::candidate);
  best_.insert(place, {std::move(candidate), family, part_});
  if (leader_times_.size() < top_) return;
  thresholds_.time = leader_times_[top_ - 1] * slack_;
  while (best_.back().candidate.estimate.step.total() > *thresholds_.time) best_.pop_back();
}

void PlanRanking::note_leader(const PlanFamily& family, Seconds time) {
  const auto [leader, is_new] = leaders_.emplace(family, time);
  if (!is_new) {
    if (leader->second <= time) return;
    leader_times_.erase(std::ranges::lower_bound(leader_times_, leader->second));
    leader->second = time;
  }
  leader_times_.insert(std::ranges::upper_bound(leader_times_, time), time);
}

void PlanRanking::note_recomputing(const RankedCandidate& contender) {
  std::vector<RecomputingPlan>& known = thresholds_.recomputing;
  const RecomputingPlan plan{contender.candidate, *contender.fewer};
  const auto beats = [](const RecomputingPlan& a, const RecomputingPlan& b) {
    const bool no_worse = a.fewer <= b.fewer && ranks_before(a.candidate, b.candidate);
    return no_worse && a.candidate.estimate.memory.total() <= b.candidate.estimate.memory.total();
  };
  const auto is_better = [&](const RecomputingPlan& other) { return beats(other, plan); };
  if (std::ranges::any_of(known, is_better)) return;
  std::erase_if(known, [&](const RecomputingPlan& other) {
    return other.candidate.plan == plan.candidate.plan || beats(plan, other);
  });
  known.push_back(plan);
}

std::vector<PlanCandidate> PlanRanking::simulated(std::vector<PlanCandidate> plans) {
  bool late = false;
  std::erase_if(plans, [&](PlanCandidate& member) {
    if (member.written) return false;
    late = late || stop_reason() != StopReason::None;
    if (late) return true;
    try {
      auto candidate = simulated(member.plan);
      if (candidate) member = *std::move(candidate);
      return !candidate.has_value();
    } catch (const Stopped&) {
      late = true;
      return true;
    }
  });
  return plans;
}

void PlanRanking::conclude(SearchResult& result) {
  result.counts.simulated += simulations_;
  if (thresholds_.keeps_front) {
    std::vector<PlanCandidate> front = simulated(std::move(thresholds_.front));
    if (stop_reason() != StopReason::None) {  // and those that are simulated anyway
      for (const Ranked& ranked : best_) front.push_back(ranked.candidate);
    }
    result.front = pareto_front(std::move(front));
  }
  std::vector<PlanCandidate> recomputing;
  for (RecomputingPlan& known : thresholds_.recomputing) {
    const bool may_rank = !thresholds_.time || known.fewer * kExact <= *thresholds_.time;
    if (may_rank) recomputing.push_back(std::move(known.candidate));
  }
  result.recomputing = simulated(std::move(recomputing));
  std::ranges::sort(result.recomputing, ranks_before);
  const bool faster = tight_ && (best_.empty() || tight_->estimate.step.total() < *fastest());
  if (faster) result.tight = std::move(tight_);
  for (Ranked& ranked : best_) result.ranked.push_back(std::move(ranked.candidate));
}

}  // namespace plansearch
