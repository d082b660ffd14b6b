// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "answer/search_answer.hpp"
#include "plan/legality/legality.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch {
namespace {

/// The question on a framework that refuses the features.
ResolvedQuestion refusing(const ResolvedQuestion& asked, const std::vector<PlanFeature>& features) {
  ResolvedQuestion changed = asked;
  Framework framework = *asked.problem.framework;
  for (const FrameworkFeature& one : asked.problem.framework->features) {
    const bool has = std::any_of(features.begin(), features.end(),
                                 [&](const PlanFeature& f) { return f.name == one.name; });
    if (has) framework.rules.push_back(one.without);
  }
  changed.problem.framework = std::make_shared<const Framework>(std::move(framework));
  return changed;
}

/// Whether what the question decides of a degree, or every value it lists, is what is refused.
bool asks_for_them(const ProblemRequest& request, const Problem& problem) {
  const auto breaks = [&](const PinnedDegrees& decided) {
    return rule_broken_by(decided, *problem.network, *problem.framework, problem.precision)
        .has_value();
  };
  if (breaks(request.degrees)) return true;
  return std::any_of(degree_table().begin(), degree_table().end(), [&](const DegreeRow& row) {
    const std::vector<int>& listed = request.limits.listed(row.degree);
    return !listed.empty() && std::all_of(listed.begin(), listed.end(), [&](int value) {
      PinnedDegrees one;
      one.pin(row.degree, value);
      return breaks(one);
    });
  });
}

}  // namespace

std::optional<WithoutReport> without_features(const ResolvedQuestion& asked,
                                              const SearchReport& report, SearchSession& session) {
  if (report.plans.empty() || report.plans.front().features.empty()) return std::nullopt;
  const PlanReport& first = report.plans.front();
  std::vector<std::string> names;
  for (const PlanFeature& feature : first.features) names.push_back(feature.name);
  WithoutReport without;
  without.features = fmt::format("{}", fmt::join(names, ", "));
  const auto take = [&](PlanSummary plan, Seconds step) {
    without.plan = std::move(plan);
    without.step = step;
    without.over_first = step / first.estimate.step.total() - 1.0;
  };
  // Ranked plans are the best of all, in order.
  const auto ranked = std::find_if(report.plans.begin(), report.plans.end(),
                                   [](const PlanReport& plan) { return plan.features.empty(); });
  if (ranked != report.plans.end()) {
    take(ranked->plan, ranked->estimate.step.total());
    return without;
  }
  const ResolvedQuestion changed = refusing(asked, first.features);
  const Problem& problem = changed.problem;
  if (asks_for_them(changed.request, problem)) return std::nullopt;
  const auto best = session.best(changed, report.question.gpus,
                                 fmt::format("without {}", without.features), OfVariants::Shown);
  if (best) take(PlanSummary(best->plan), best->estimate.step.total());
  return without;
}

}  // namespace plansearch
