// SPDX-License-Identifier: Apache-2.0
// Computes: errors of a fit on rows left out of it.
// Source: five-fold cross-validation.
// Assumes: rows lie in no order that repeats every five.
// Units: logarithms of ratios.
// Checked by: tests/unit/studies/held_out_test.cpp
#include "studies/fit/held_out.hpp"

#include <algorithm>
#include <cmath>

#include "studies/validate/statistics.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kFolds = 5;
constexpr std::size_t kFewest = 10;
constexpr std::size_t kMost = 1000;

/// The problem of some of its rows.
CurveProblem part_of(const CurveProblem& whole, std::vector<std::size_t> rows) {
  CurveProblem part = whole;
  part.measured.clear();
  for (const std::size_t row : rows) part.measured.push_back(whole.measured[row]);
  part.predict = [&whole, rows = std::move(rows)](std::span<const double> logs) {
    const std::vector<double> all = whole.predict(logs);
    std::vector<double> some;
    for (const std::size_t row : rows) some.push_back(all[row]);
    return some;
  };
  return part;
}

}  // namespace

std::optional<HeldOut> held_out(const CurveProblem& problem, std::span<const std::size_t> kept) {
  if (kept.size() < kFewest || kept.size() > kMost) return std::nullopt;
  std::vector<double> left;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<std::size_t> seen;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (i % kFolds != fold) seen.push_back(kept[i]);
    }
    const auto found = fit_curve(part_of(problem, std::move(seen)));
    const auto* fit = std::get_if<CurveFit>(&found);
    if (fit == nullptr) return std::nullopt;
    const std::vector<double> predicted = problem.predict(fit->moved);
    for (std::size_t i = fold; i < kept.size(); i += kFolds) {
      left.push_back(problem.measured[kept[i]] - predicted[kept[i]]);
    }
  }
  std::sort(left.begin(), left.end());
  std::vector<double> errors;
  for (const double log : left) errors.push_back(std::abs(log));
  return HeldOut{median(errors), {quantile(left, 0.1), quantile(left, 0.5), quantile(left, 0.9)}};
}

}  // namespace plansearch
