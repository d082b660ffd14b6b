// SPDX-License-Identifier: Apache-2.0
// Computes: a quantile of a mixture of steps.
// Source: definition; bisection of the distribution function.
// Assumes: each part is log-normal, with one deviation below its median and one above.
// Units: those of the medians.
// Checked by: tests/unit/evaluate/mixture_test.cpp
#include "evaluate/answer/mixture.hpp"

#include <algorithm>
#include <cmath>

namespace plansearch {
namespace {

/// Share of the runs of a part that take less than exp(`log_time`).
double share_below(const MixturePart& part, double log_time) {
  const double error = log_time - std::log(part.median);
  const double deviation = error < 0.0 ? part.below : part.above;
  if (deviation <= 0.0) return error < 0.0 ? 0.0 : 1.0;
  return 0.5 * std::erfc(-error / (deviation * std::sqrt(2.0)));
}

}  // namespace

double mixture_quantile(const std::vector<MixturePart>& parts, double share) {
  double all = 0.0;
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  constexpr double kFar = 8.0;  // deviations, beyond which nothing lies
  for (const MixturePart& part : parts) {
    all += part.odds;
    low = std::min(low, std::log(part.median) - kFar * part.below);
    high = std::max(high, std::log(part.median) + kFar * part.above);
  }
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    double below = 0.0;
    for (const MixturePart& part : parts) below += part.odds / all * share_below(part, middle);
    (below < share ? low : high) = middle;
  }
  return std::exp(0.5 * (low + high));
}

}  // namespace plansearch
