// SPDX-License-Identifier: Apache-2.0
// Computes: the order of priced plans, their Pareto front, the chance that one beats another,
//           groups of ranked plans of one family that tie.
// Source: log-normal paired difference, P(A faster) = Phi(ln(tB/tA) / sigma).
// Assumes: class-level errors are common to both plans and cancel in the difference; of plans that
//          differ in chunks and order people want the simplest.
// Units: seconds, bytes, probabilities.
// Checked by: tests/unit/search/ranking_test.cpp, variants_test.cpp
#include "plansearch/search.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

#include "base/statistics.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Sums of the same parts in other orders differ by as much; bytes are told whole.
constexpr double kSameSum = 1.0 - 1e-12;
constexpr Bytes kByte{1};

/// Keys of the rank of a candidate, its sums added up once.
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
  std::ranges::sort(places, std::less{}, &Place::key);
  std::vector<PlanCandidate> front;
  Bytes least;
  for (const Place& place : places) {
    if (!front.empty() && place.key.memory > least - kByte) continue;
    // Times that differ by rounding are equal: the plan of more memory is beaten.
    const bool tied =
        !front.empty() && place.key.time * kSameSum <= front.back().estimate.step.total();
    if (tied) front.pop_back();
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
  front.insert(std::ranges::upper_bound(front, candidate, ranks_before), candidate);
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
  return normal_below(std::log(b / a), paired_sigma);
}

namespace {

/// Plans that take at most `limit` come first, then those with the fewest tensors on the host, then
/// those that differ from the fastest in chunks and order only.
PlanGroup::iterator simplest(PlanGroup& group, Seconds limit) {
  const PlanDegrees fastest = group.front().plan;
  const auto key = [&](const PlanCandidate& candidate) {
    const PlanDegrees& plan = candidate.plan;
    const bool late = candidate.estimate.step.total() > limit;
    const bool twin = plan.zero != fastest.zero || plan.context_kind != fastest.context_kind;
    return std::tuple(late, std::popcount(plan.on_host), twin, plan.chunks, plan.schedule);
  };
  return std::ranges::min_element(
      group, [&](const PlanCandidate& a, const PlanCandidate& b) { return key(a) < key(b); });
}

/// Whether another plan of the group is as fast with fewer tensors on the host and else the same.
bool is_needless(const PlanCandidate& candidate, const PlanGroup& group) {
  return std::ranges::any_of(group, [&](const PlanCandidate& other) {
    PlanDegrees alike = other.plan;
    alike.on_host = candidate.plan.on_host;
    const bool fewer = other.plan.on_host != candidate.plan.on_host &&
                       (other.plan.on_host & ~candidate.plan.on_host) == 0;
    return fewer && alike == candidate.plan &&
           other.estimate.step.total() <= candidate.estimate.step.total();
  });
}

/// Axes of the mesh with more than one rank.
std::ptrdiff_t cut_axes(const PlanDegrees& plan) {
  const std::array ranks{plan.data,         plan.pipeline,   plan.context, plan.tensor_in,
                         plan.tensor_depth, plan.tensor_out, plan.expert,  plan.expert_tensor};
  return std::ranges::count_if(ranks, [](int n) { return n > 1; });
}

void leave_needless_out(PlanGroup& group) {
  PlanGroup kept;
  std::ranges::copy_if(group, std::back_inserter(kept),
                       [&](const PlanCandidate& one) { return !is_needless(one, group); });
  group = std::move(kept);
}

}  // namespace

std::vector<PlanGroup> grouped_variants(const std::vector<PlanCandidate>& ranked,
                                        double paired_sigma, std::size_t top) {
  std::vector<PlanGroup> groups;
  std::map<PlanDegrees, std::vector<std::size_t>> known;  // groups by family
  for (const PlanCandidate& candidate : ranked) {
    const auto ties = [&](std::size_t group) {
      return probability_faster(groups[group].front().estimate.step.total(),
                                candidate.estimate.step.total(), paired_sigma) < kTieProbability;
    };
    if (candidate.written) {
      groups.push_back({candidate});
      continue;
    }
    std::vector<std::size_t>& family = known[plan_family(candidate.plan)];
    const auto group = std::ranges::find_if(family, ties);
    if (group != family.end()) {
      groups[*group].push_back(candidate);
    } else {
      family.push_back(groups.size());
      groups.push_back({candidate});
    }
  }
  // Equal plans: people run the one with the fewest axes.
  const auto key = [](const PlanGroup& group) {
    const Estimate& estimate = group.front().estimate;
    return std::tuple(estimate.step.total(), estimate.memory.total(), cut_axes(group.front().plan));
  };
  std::ranges::stable_sort(groups, std::less{}, key);
  for (std::size_t g = 0; g < std::min(groups.size(), top); ++g) {
    // No slower than the next group at its best: the order holds whatever `top` is.
    const bool last = g + 1 == groups.size();
    const PlanCandidate& bar = last ? groups[g].back() : groups[g + 1].front();
    const Seconds limit = bar.estimate.step.total();
    leave_needless_out(groups[g]);
    const auto first = simplest(groups[g], limit);
    std::rotate(groups[g].begin(), first, first + 1);
  }
  if (groups.size() > top) groups.resize(top);
  return groups;
}

}  // namespace plansearch
