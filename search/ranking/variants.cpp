// SPDX-License-Identifier: Apache-2.0
// Computes: groups of ranked plans of one family that tie.
// Source: the chance that one is really faster (ranking.hpp).
// Assumes: of plans that differ in chunks and order people want the simplest.
// Units: none.
// Checked by: tests/unit/search/variants_test.cpp
#include "search/ranking/variants.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace plansearch {
namespace {

/// The fewest tensors on the host; then of the fastest and what differs from it in chunks and
/// order.
PlanGroup::iterator simplest(PlanGroup& group) {
  const PlanDegrees fastest = group.front().plan;
  const auto key = [&](const PlanCandidate& candidate) {
    const PlanDegrees& plan = candidate.plan;
    const bool twin = plan.zero != fastest.zero || plan.context_kind != fastest.context_kind;
    return std::tuple(std::popcount(plan.on_host), twin, plan.chunks, plan.schedule);
  };
  return std::min_element(
      group.begin(), group.end(),
      [&](const PlanCandidate& a, const PlanCandidate& b) { return key(a) < key(b); });
}

/// Whether another plan of the group is as fast with fewer tensors on the host and else the same.
bool is_needless(const PlanCandidate& candidate, const PlanGroup& group) {
  return std::any_of(group.begin(), group.end(), [&](const PlanCandidate& other) {
    PlanDegrees alike = other.plan;
    alike.on_host = candidate.plan.on_host;
    const bool fewer = other.plan.on_host != candidate.plan.on_host &&
                       (other.plan.on_host & ~candidate.plan.on_host) == 0;
    return fewer && alike == candidate.plan &&
           other.estimate.step.total() <= candidate.estimate.step.total();
  });
}

void leave_needless_out(PlanGroup& group) {
  PlanGroup kept;
  std::copy_if(group.begin(), group.end(), std::back_inserter(kept),
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
    const auto group = std::find_if(family.begin(), family.end(), ties);
    if (group != family.end()) {
      groups[*group].push_back(candidate);
    } else {
      family.push_back(groups.size());
      groups.push_back({candidate});
    }
  }
  if (groups.size() > top) groups.resize(top);
  for (PlanGroup& group : groups) {
    leave_needless_out(group);
    const auto first = simplest(group);
    std::rotate(group.begin(), first, first + 1);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const PlanGroup& a, const PlanGroup& b) {
    return ranks_before(a.front(), b.front());
  });
  return groups;
}

}  // namespace plansearch
