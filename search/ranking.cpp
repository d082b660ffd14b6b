// SPDX-License-Identifier: Apache-2.0
// Computes: the order of priced plans, their Pareto front, the chance that one beats another.
// Source: log-normal paired difference, P(A faster) = Phi(ln(tB/tA) / sigma).
// Assumes: class-level errors are common to both plans and cancel in the difference.
// Units: seconds, bytes, probabilities.
// Checked by: tests/unit/search/ranking_test.cpp
#include "plansearch/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace plansearch {

bool ranks_before(const PlanCandidate& a, const PlanCandidate& b) {
  const auto key = [](const PlanCandidate& c) {
    return std::tuple(c.estimate.step.total(), c.estimate.memory.total());
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return a.plan < b.plan;
}

std::vector<PlanCandidate> pareto_front(std::vector<PlanCandidate> candidates) {
  std::sort(candidates.begin(), candidates.end(), ranks_before);
  std::vector<PlanCandidate> front;
  for (PlanCandidate& candidate : candidates) {
    if (front.empty() || candidate.estimate.memory.total() < front.back().estimate.memory.total()) {
      front.push_back(std::move(candidate));
    }
  }
  return front;
}

double probability_faster(Seconds a, Seconds b, double paired_sigma) {
  if (a == b) return 0.5;
  if (paired_sigma <= 0.0) return a < b ? 1.0 : 0.0;
  return 0.5 * std::erfc(-std::log(b / a) / (paired_sigma * std::sqrt(2.0)));
}

}  // namespace plansearch
