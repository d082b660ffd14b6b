// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluate/framework_constants.hpp"
#include "plansearch/ranking.hpp"
#include "problem/gpu_count.hpp"
#include "problem/make_report.hpp"

namespace plansearch {
namespace {

std::int64_t whole(double count) {
  constexpr double kMost = 9e18;  // of an integer of 64 bits
  return static_cast<std::int64_t>(std::min(count, kMost));
}

std::string optimality(const std::string& space, const UnevenResult& result) {
  if (result.completeness == Completeness::Optimal) {
    if (!result.claim.empty()) return result.claim;
    return result.ranked.empty()
               ? fmt::format("no plan of space {} runs: all were looked at", space)
               : fmt::format("optimal within space {}: no plan of it is predicted to be faster",
                             space);
  }
  if (result.ranked.empty()) return "stopped early: nothing found so far";
  if (result.bound == Seconds()) return "stopped early: what was not looked at may be faster";
  const Seconds best = result.ranked.front().estimate.step.total();
  return fmt::format(
      "stopped early: no plan of space {} is more than {:.1f} % faster than the best so far", space,
      100.0 * (best / result.bound - 1.0));
}

}  // namespace

SearchReport make_report(const SettledProblem& asked, const PlanEvaluator& evaluator,
                         const std::string& space, const UnevenResult& result) {
  const Problem& problem = evaluator.problem();
  const double sigma = framework_constants(*problem.framework).paired_sigma;
  SearchReport report;
  report.question = question_report(asked, problem);
  for (const StagedCandidate& candidate : result.ranked) {
    PlanReport plan = report_plan(evaluator, candidate.plan, candidate.estimate);
    const auto ties_with = [&](const PlanReport& better) {
      return probability_faster(better.estimate.step.total(), plan.estimate.step.total(), sigma) <
             kTieProbability;
    };
    plan.rank = static_cast<int>(report.plans.size()) + 1;
    if (!report.plans.empty()) {
      plan.ties = {ties_with(report.plans.back()), ties_with(report.plans.front())};
    }
    plan.variants = candidate.variants;
    report.plans.push_back(std::move(plan));
  }
  std::vector<StagedCandidate> front = result.front;
  for (const StagedCandidate& candidate : result.ranked) add_to_front(front, candidate);
  for (const StagedCandidate& member : front) {
    report.front.push_back(report_plan(evaluator, member.plan, member.estimate));
  }
  report.admitted = result.admitted;
  CountsReport& counts = report.counts;
  counts.space = space;
  counts.total = whole(result.counts.space);
  counts.evaluated = counts.simulated = result.counts.simulated;
  const std::int64_t others = counts.total - counts.evaluated;
  (result.completeness == Completeness::Optimal ? counts.pruned : counts.unvisited) = others;
  counts.left_out = result.left_out;
  report.optimality = optimality(space, result);
  report.evidence = evidence_text(asked, report.question);
  return report;
}

}  // namespace plansearch
