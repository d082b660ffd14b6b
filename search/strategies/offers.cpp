// SPDX-License-Identifier: Apache-2.0
// Computes: which plans of a strategy that makes them one by one enter the ranking.
// Source: plans by PlanEvaluator::evaluate.
// Assumes: bounds hold; a family is what its key says, such as plans that differ in layers only.
// Units: seconds, bytes.
// Checked by: tests/unit/search/uneven_search_test.cpp, end_layers_test.cpp (equal to pricing every
//             plan).
#include "search/strategies/offers.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/parallel.hpp"

namespace plansearch {
namespace {

/// Plans slower than the best by this ratio are not worth listing.
constexpr double kInteresting = 1.25;
/// Prices that differ less are equal: they add the same parts up in other orders.
constexpr double kSame = 1.0 - 1e-12;

}  // namespace

bool Offers::is_late(Seconds bound) const {
  if (task_.options.pruning == Pruning::Off) return false;
  const auto last = task_.ranking.last_leader();
  if (last && bound > *last) return true;
  if (!best_ || bound <= *best_) return false;
  return families_.size() >= task_.options.top || bound > *best_ * kInteresting;
}

bool Offers::may_rank(const PlanFamily& family, Seconds bound) const {
  if (task_.options.pruning == Pruning::Off) return true;
  const auto last = task_.ranking.last_leader();
  if (last && bound > *last) return false;
  const auto known = task_.ranking.leader_of(family);
  return !known || bound < *known;
}

bool Offers::excludes(const PlanFamily& family, const PlanBound& bound) const {
  if (task_.options.pruning == Pruning::Off) return false;
  const Thresholds& thresholds = task_.ranking.thresholds();
  if (thresholds.exclude(bound)) return true;
  const auto known = task_.ranking.leader_of(family);
  if (!known || bound.step_time < *known * kSame) return false;
  if (!thresholds.keeps_front) return true;
  return std::any_of(thresholds.front.begin(), thresholds.front.end(), [&](const auto& member) {
    return member.estimate.step.total() * kSame <= bound.step_time &&
           member.estimate.memory.total() <= bound.memory;
  });
}

Offers::Verdict Offers::judge(const std::variant<ParallelPlan, Infeasible>& made,
                              const PlanFamily& family) const {
  const auto* plan = std::get_if<ParallelPlan>(&made);
  if (plan == nullptr) return {};
  const Evaluation evaluation = task_.evaluator.evaluate(*plan);
  if (const auto* estimate = std::get_if<Estimate>(&evaluation)) {
    const Seconds time = estimate->step.total();
    return {may_rank(family, time), has_room(plan->transform_at(0).degrees, *estimate), time};
  }
  const auto& too_large = std::get<InfeasiblePlan>(evaluation).estimate;
  if (!too_large) return {};
  return {may_rank(family, too_large->step.total()), false, too_large->step.total()};
}

void Offers::count(double plans) {
  std::int64_t& space = task_.result.counts.space;
  space = saturated_sum(space, saturated(plans));
}

void Offers::offer(const std::variant<ParallelPlan, Infeasible>& made, const PlanFamily& family) {
  offer_batch(1, [&](std::size_t) { return Made{made, family}; });
}

void Offers::offer_batch(std::size_t count, const std::function<Made(std::size_t)>& make) {
  struct Priced {
    Made made;
    Evaluation evaluation;
  };
  std::vector<Priced> batch(count);
  parallel_for(count, task_.options.threads, [&](std::size_t i) {
    batch[i].made = make(i);
    const auto* plan = std::get_if<ParallelPlan>(&batch[i].made.plan);
    if (plan != nullptr) batch[i].evaluation = task_.evaluator.evaluate(*plan);
  });
  for (Priced& one : batch) {
    const auto* plan = std::get_if<ParallelPlan>(&one.made.plan);
    if (plan != nullptr) take(*plan, std::move(one.evaluation), one.made.family);
  }
}

void Offers::take(const ParallelPlan& plan, Evaluation evaluation, const PlanFamily& family) {
  SearchCounts& counts = task_.result.counts;
  const auto* infeasible = std::get_if<InfeasiblePlan>(&evaluation);
  if (infeasible != nullptr && infeasible->reason.obstacle == Obstacle::BeyondSimulation) {
    ++counts.rejected[static_cast<std::size_t>(Obstacle::BeyondSimulation)];
    return;
  }
  ++counts.evaluated;
  ++counts.simulated;
  auto* estimate = std::get_if<Estimate>(&evaluation);
  if (estimate == nullptr || estimate->memory.total() > task_.limits().tight()) return;
  PlanCandidate candidate{plan.transform_at(0).degrees, std::move(*estimate),
                          std::make_shared<const ParallelPlan>(plan)};
  if (task_.options.priced) task_.options.priced({&candidate, 1});
  if (has_room(candidate.plan, candidate.estimate)) {
    families_.insert(family);
    const Seconds time = candidate.estimate.step.total();
    if (!best_ || time < *best_) {
      best_ = time;
      if (task_.options.progress) task_.options.progress({0.0, time});
    }
  }
  task_.ranking.take(std::move(candidate), family);
}

}  // namespace plansearch
