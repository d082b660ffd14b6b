// SPDX-License-Identifier: Apache-2.0
#include "answer/unstated.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "answer/make_report.hpp"
#include "evaluate/answer/open_switches.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch {
namespace {

/// "; p10 - p90 are over what is not stated: recompute (none here, 94 % of runs; full 3 %, 1.29x);
/// recompute matters most: p90 / p10 1.41, 1.39 where it is stated". Empty where it hardly matters.
std::string unstated_text(const std::vector<OpenSwitch>& open, const PlanReport& plan) {
  constexpr double kRare = 0.02;   // of runs
  constexpr double kWorth = 1.01;  // of p90 over p10
  const double now = plan.p90 / plan.p10;
  if (open.empty() || now < kWorth * open.front().stated) return {};
  std::vector<std::string> switches;
  for (const OpenSwitch& found : open) {
    std::vector<std::string> values;
    for (const SwitchValue& value : found.values) {
      const std::string text = value_text(found.degree, value.value);
      const bool own = value.value == found.assumed;
      if (own)
        values.push_back(fmt::format("{} here, {:.0f} % of runs", text, 100.0 * value.share));
      if (own || value.share < kRare) continue;
      values.push_back(fmt::format("{} {:.0f} %, {:.2f}x", text, 100.0 * value.share, value.ratio));
    }
    switches.push_back(fmt::format("{} ({})", row_of(found.degree).key, fmt::join(values, "; ")));
  }
  return fmt::format(
      "; p10 - p90 are over what is not stated: {}; {} matters most: p90 / p10 {:.2f}, {:.2f} "
      "where it is stated",
      fmt::join(switches, ", "), row_of(open.front().degree).key, now, open.front().stated);
}

void widen_by_unstated(const ResolvedPlan& given, const PlanEvaluator& evaluator,
                       const SwitchPriors& priors, SearchReport& report) {
  if (!given.degrees || given.plan.order.window || !given.shared.empty()) return;
  const Problem& problem = given.problem;
  const std::vector<Degree> open = open_switches(given.asked.request.degrees, *problem.framework);
  const PlanDegrees& own = *given.degrees;
  if (open.empty() || evaluator.obstacle(own)) return;
  const EvaluationWorkspacePtr workspace = PlanEvaluator::make_workspace();
  const Estimate estimate = evaluator.simulate(*evaluator.profile(own), own, *workspace);
  const std::vector<PossiblePlan> plans =
      possible_plans(evaluator, {own, estimate}, open, {priors, year_of(priors, {})}, *workspace);
  if (plans.size() == 1) return;
  const ErrorModel errors = error_model(problem);
  const RelativeInterval interval = mixed_interval(plans, errors, problem.gpus);
  PlanReport& plan = report.plans.front();
  const Seconds step = plan.estimate.step.total();
  plan.p10 = step * interval.p10;
  plan.p90 = step * interval.p90;
  report.evidence += unstated_text(open_switches_of(plans, open, errors, problem.gpus), plan);
}

}  // namespace

SwitchPriors switch_priors(const ShippedData& data) {
  return io::read_switch_priors(data.directory() / "validation" / "switch_priors.yaml");
}

SearchReport predict_as_asked(const ResolvedPlan& given, const PlanEvaluator& evaluator,
                              const SwitchPriors& priors) {
  SearchReport report = make_prediction(given.asked, evaluator, given.plan);
  widen_by_unstated(given, evaluator, priors, report);
  return report;
}

SearchReport predict_as_asked(const ResolvedPlan& given, const SwitchPriors& priors) {
  return predict_as_asked(given, PlanEvaluator(given.problem), priors);
}

}  // namespace plansearch
