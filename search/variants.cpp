// SPDX-License-Identifier: Apache-2.0
// Computes: groups of ranked plans that differ in chunks and order only, and tie.
// Source: the chance that one is really faster (ranking.hpp).
// Assumes: of plans that tie people want the simplest.
// Units: none.
// Checked by: tests/unit/search/variants_test.cpp
#include "search/variants.hpp"

#include <algorithm>
#include <tuple>

namespace plansearch {
namespace {

bool simpler(const PlanCandidate& a, const PlanCandidate& b) {
  return std::tuple(a.plan.chunks, a.plan.schedule) < std::tuple(b.plan.chunks, b.plan.schedule);
}

}  // namespace

std::vector<PlanGroup> grouped_variants(const std::vector<PlanCandidate>& ranked,
                                        double paired_sigma, std::size_t top) {
  std::vector<PlanGroup> groups;
  for (const PlanCandidate& candidate : ranked) {
    const auto ties = [&](const PlanGroup& group) {
      return plan_family(group.front().plan) == plan_family(candidate.plan) &&
             probability_faster(group.front().estimate.step.total(),
                                candidate.estimate.step.total(), paired_sigma) < kTieProbability;
    };
    const auto group = std::find_if(groups.begin(), groups.end(), ties);
    if (group == groups.end()) {
      groups.push_back({candidate});
    } else {
      group->push_back(candidate);
    }
  }
  if (groups.size() > top) groups.resize(top);
  for (PlanGroup& group : groups) {
    const auto simplest = std::min_element(group.begin(), group.end(), simpler);
    std::rotate(group.begin(), simplest, simplest + 1);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const PlanGroup& a, const PlanGroup& b) {
    return ranks_before(a.front(), b.front());
  });
  return groups;
}

}  // namespace plansearch
