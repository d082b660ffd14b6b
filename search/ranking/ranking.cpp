// SPDX-License-Identifier: Apache-2.0
// Computes: the order of priced plans, their Pareto front, the chance that one beats another.
// Source: log-normal paired difference, P(A faster) = Phi(ln(tB/tA) / sigma).
// Assumes: class-level errors are common to both plans and cancel in the difference.
// Units: seconds, bytes, probabilities.
// Checked by: tests/unit/search/ranking_test.cpp
#include "plansearch/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "plansearch/error.hpp"

namespace plansearch {

namespace {

/// What decides the rank of a candidate, its sums added up once.
struct RankKey {
  Seconds time;
  Bytes memory;
  const PlanDegrees* plan;
  bool operator<(const RankKey& other) const {
    if (time != other.time) return time < other.time;
    return memory != other.memory ? memory < other.memory : *plan < *other.plan;
  }
};

RankKey rank_key(const PlanCandidate& candidate) {
  return {candidate.estimate.step.total(), candidate.estimate.memory.total(), &candidate.plan};
}

}  // namespace

bool PlanCandidate::operator==(const PlanCandidate& other) const {
  if (plan != other.plan || !(estimate == other.estimate)) return false;
  if (!written || !other.written) return written == other.written;
  return *written == *other.written;
}

ParallelPlan whole_plan(const PlanEvaluator& evaluator, const PlanCandidate& candidate) {
  if (candidate.written) return *candidate.written;
  auto plan = evaluator.expand(candidate.plan);
  PLANSEARCH_CHECK(std::holds_alternative<ParallelPlan>(plan));
  return std::get<ParallelPlan>(std::move(plan));
}

bool ranks_before(const PlanCandidate& a, const PlanCandidate& b) {
  return rank_key(a) < rank_key(b);
}

std::vector<PlanCandidate> pareto_front(std::vector<PlanCandidate> candidates) {
  struct Place {
    RankKey key;
    std::size_t index;
  };
  std::vector<Place> places;
  places.reserve(candidates.size());
  for (const PlanCandidate& candidate : candidates) {
    places.push_back({rank_key(candidate), places.size()});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.key < b.key; });
  std::vector<PlanCandidate> front;
  Bytes least;
  for (const Place& place : places) {
    if (!front.empty() && place.key.memory >= least) continue;
    least = place.key.memory;
    front.push_back(candidates[place.index]);
  }
  return front;
}

void add_to_front(std::vector<PlanCandidate>& front, const PlanCandidate& candidate) {
  const auto beats = [](const PlanCandidate& a, const PlanCandidate& b) {
    return a.estimate.step.total() <= b.estimate.step.total() &&
           a.estimate.memory.total() <= b.estimate.memory.total();
  };
  for (const PlanCandidate& member : front) {
    if (beats(member, candidate)) return;
  }
  std::erase_if(front, [&](const PlanCandidate& member) { return beats(candidate, member); });
  front.insert(std::upper_bound(front.begin(), front.end(), candidate, ranks_before), candidate);
}

double tied_ratio(double paired_sigma) {
  // Phi(0.8416...) = 0.8 = kTieProbability
  constexpr double kTieDeviations = 0.8416212335729143;
  return std::exp(kTieDeviations * paired_sigma);
}

PlanDegrees plan_family(PlanDegrees plan) {
  plan.chunks = 1;
  plan.schedule = kDefaultSchedule;
  if (plan.zero == ZeroStage::None) plan.zero = ZeroStage::Optimizer;
  plan.context_kind = ContextKind::Ring;
  plan.on_host = 0;
  return plan;
}

double probability_faster(Seconds a, Seconds b, double paired_sigma) {
  if (a == b) return 0.5;
  if (paired_sigma <= 0.0) return a < b ? 1.0 : 0.0;
  return 0.5 * std::erfc(-std::log(b / a) / (paired_sigma * std::sqrt(2.0)));
}

}  // namespace plansearch
