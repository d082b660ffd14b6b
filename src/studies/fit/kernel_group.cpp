// SPDX-License-Identifier: Apache-2.0
#include "studies/fit/kernel_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "studies/validate/site_fit.hpp"

namespace plansearch {
namespace {

void require_same_machine(const GroupProblem& problem) {
  if (problem.sample.measured().empty()) return;
  const double ratio = problem.sample.ratio();
  if (ratio <= problem.other && ratio >= 1.0 / problem.other) return;
  throw FitRefusal{
      fmt::format("{}: the times are x{:.3g} of those of the base", problem.part, ratio),
      "are they of another accelerator or network, or in other units than microseconds and bytes?"};
}

/// A guess may be off by a factor of e^2 as easily as a row by its noise.
constexpr double kGuess = 1e-3;
/// Spread of a machine of which nothing else is known: a factor of two is news.
constexpr double kAnyMachine = 0.7;

/// A rate and the start of a call cannot be separated by one size.
void require_sizes(const GroupProblem& problem) {
  if (problem.sample.measured().size() < kFewestRuns || problem.sample.sizes() > 1) return;
  throw FitRefusal{
      fmt::format("{}: all rows are of one size", problem.part),
      "measure small and large ones: the start of a call and its rate are to be found"};
}

void require_agreement(const GroupProblem& problem, const CurveFit& fit) {
  constexpr double kMost = 1.0 / 3.0;
  const double rows = static_cast<double>(problem.sample.measured().size());
  if (static_cast<double>(fit.outliers.size()) <= kMost * rows) return;
  throw FitRefusal{
      fmt::format("{}: {} of {} rows contradict the others, {} among them", problem.part,
                  fit.outliers.size(), rows, problem.sample.place(fit.outliers.front())),
      "are all of them of one machine, in microseconds and bytes?"};
}

KernelGroupFit group_of(const GroupProblem& problem, const CurveFit& fit) {
  KernelGroupFit group;
  group.part = problem.part;
  group.files = problem.sample.files();
  group.rows = fit.kept.size();
  group.scatter = fit.scatter;
  group.error_before = fit.error_before;
  group.error_after = fit.error_after;
  for (const std::size_t row : fit.outliers) group.outliers.push_back(problem.sample.place(row));
  const std::vector<double> predicted = problem.sample.predict(problem.apply(fit.moved));
  for (const std::size_t row : fit.kept) {
    group.seen.push_back({problem.sample.measured()[row], predicted[row]});
  }
  return group;
}

}  // namespace

GroupFit fit_group(const GroupProblem& problem) {
  require_same_machine(problem);
  require_sizes(problem);
  const CurveProblem curve{
      problem.parameters,
      [&](std::span<const double> logs) { return problem.sample.predict(problem.apply(logs)); },
      problem.sample.measured(),
      problem.usual,
      problem.carried == Carried::WholeCurve ? kAnyMachine : problem.between,
      problem.carried == Carried::WholeCurve ? kGuess : kPriorRuns};
  const auto found = fit_curve(curve);
  if (const auto* fit = std::get_if<CurveFit>(&found)) {
    require_agreement(problem, *fit);
    GroupFit result{*fit, group_of(problem, *fit)};
    result.group.held_out = held_out(curve, fit->kept);
    return result;
  }
  const auto& refused = std::get<CurveFitRefusal>(found);
  std::string text = fmt::format("{}: {}", problem.part, refused.reason);
  for (std::size_t i = 0; i < std::min<std::size_t>(refused.outliers.size(), 3); ++i) {
    text += fmt::format("; {} contradicts the others", problem.sample.place(refused.outliers[i]));
  }
  throw FitRefusal{text, "measure more shapes or sizes, or check those that contradict"};
}

double moved_share(double base, double log) {
  return std::min(base * std::exp(log), std::max(base, 1.0));
}

double usual_scatter(const std::optional<Residual>& residual, const Cluster& base) {
  if (!residual) return std::max(kLeastScatter, base.unmeasured_sigma);
  return std::max(kLeastScatter, (residual->p90 - residual->p10) / (2.0 * kTenth));
}

void widen(std::optional<Residual>& residual, double scatter, double usual) {
  if (scatter <= kLargeScatter || scatter <= usual) return;
  residual = Residual{-kTenth * scatter, 0.0, kTenth * scatter};
}

}  // namespace plansearch
