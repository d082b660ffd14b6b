// SPDX-License-Identifier: Apache-2.0
// Computes: tokens of the fullest rank over the mean: 1 + m d. d, the deviation of one rank over
//           the mean: d^2 = (v / (T p^2) + s^2 (E - e) / (e (E - 1))) R / (R - 1), with T tokens,
//           of whose copies a rank gets p = k / R with variance v; s the spread of experts' shares,
//           e = E / R experts a rank. m: the expected largest of R normal numbers, the integral of
//           x d(Phi^R).
// Source: order statistics of a normal sample; the mean of e of E numbers drawn without
//         replacement; the factor R / (R - 1) because what ranks get adds up to a constant.
// Assumes: many tokens a rank, so that loads are normal; experts are not grouped by popularity;
//          no rank takes more than an expert's limit times the mean.
// Units: tokens.
// Checked by: tests/unit/cost/token_load_test.cpp (routing of a million tokens)

#include <algorithm>
#include <cmath>
#include <map>

#include "cost/collective/collective_cost.hpp"

namespace plansearch {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752;

/// The mean of the maximum, by parts: the integral of 1 - Phi^n above 0, less that of Phi^n below.
double integrated(double count) {
  constexpr double kEnd = 9.0;
  constexpr int kSteps = 1800;
  constexpr double kStep = kEnd / kSteps;
  double sum = 0.0;
  for (int i = 0; i < kSteps; ++i) {
    const double x = (i + 0.5) * kStep;
    const double above = 0.5 * std::erfc(x * kSqrtHalf);
    sum += (1.0 - std::pow(1.0 - above, count) - std::pow(above, count)) * kStep;
  }
  return sum;
}

}  // namespace

double expected_largest(double count) {
  if (count <= 1.0) return 0.0;
  thread_local std::map<double, double> known;
  const auto found = known.find(count);
  if (found != known.end()) return found->second;
  return known.emplace(count, integrated(count)).first->second;
}

double fullest_rank(const Routing& routing, double ranks, double rows) {
  if (ranks <= 1.0) return 1.0;
  if (!routing.spread || routing.imbalance > 1.0) return routing.imbalance;
  const auto experts = static_cast<double>(routing.experts);
  const double share = static_cast<double>(routing.top_k) / ranks;
  const double tokens = rows / share;
  const double held = experts / ranks;
  const double drawn = copies_variance(routing, ranks) / (tokens * share * share);
  const double popular =
      *routing.spread * *routing.spread * (experts - held) / (held * std::max(experts - 1.0, 1.0));
  const double deviation = std::sqrt((drawn + popular) * ranks / (ranks - 1.0));
  return std::min(1.0 + expected_largest(ranks) * deviation, routing.most.value_or(ranks));
}

}  // namespace plansearch
