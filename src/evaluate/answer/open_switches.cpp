// SPDX-License-Identifier: Apache-2.0
// Computes: the steps that a question may mean which leaves switches out, as one distribution.
// Source: definition of a mixture, bisection of its distribution function; shares of published runs
//         (validation/switch_priors.yaml).
// Assumes: switches are chosen independently of each other; a plan that has no room is not chosen
//          in the place of the assumed one; each part of a mixture is log-normal, with one
//          deviation below its median and one above.
// Units: ratios of steps.
// Checked by: tests/unit/evaluate/open_switches_test.cpp, mixture_test.cpp
#include "evaluate/answer/open_switches.hpp"

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"
#include "plan/degrees/framework_defaults.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch {
namespace {

PlanDegrees with_value(PlanDegrees plan, Degree degree, int value) {
  const int sequences = plan.micro_batch * plan.micro_batches;
  set_degree(plan, degree, value);
  if (degree == Degree::MicroBatch) plan.micro_batches = sequences / value;
  return plan;
}

std::vector<int> values_of(Degree degree, const PlanDegrees& plan) {
  if (degree == Degree::Recompute) {
    return {static_cast<int>(Recompute::None), static_cast<int>(Recompute::Selective),
            static_cast<int>(Recompute::Full)};
  }
  std::vector<int> sizes;
  const int sequences = plan.micro_batch * plan.micro_batches;
  for (int size = 1; sequences % size == 0; size *= 2) sizes.push_back(size);
  return sizes;
}

/// Every combination of values of the switches from `next` on, with the product of their shares.
void add_values(PlanDegrees plan, double share, const std::vector<Degree>& open, std::size_t next,
                const Framework& framework, const SwitchEvidence& evidence,
                std::vector<std::pair<PlanDegrees, double>>& found) {
  if (share <= 0.0) return;
  if (next == open.size()) {
    found.emplace_back(plan, share);
    return;
  }
  const Degree degree = open[next];
  std::vector<int> values = values_of(degree, plan);
  const int own = degree_value(plan, degree);
  if (std::find(values.begin(), values.end(), own) == values.end()) values.push_back(own);
  const double kept = evidence.priors.as_assumed;
  for (const int value : values) {
    const double stated =
        prior_share(evidence.priors, degree, framework.name, evidence.year, value);
    const double part = (value == own ? kept : 0.0) + (1.0 - kept) * stated;
    add_values(with_value(plan, degree, value), share * part, open, next + 1, framework, evidence,
               found);
  }
}

double width(const std::vector<PossiblePlan>& plans, const ErrorModel& errors, int devices) {
  const RelativeInterval interval = mixed_interval(plans, errors, devices);
  return interval.p90 / interval.p10;
}

/// Values of one switch: their shares among all plans, and the step with each where nothing else
/// differs from the first plan.
OpenSwitch described(Degree degree, const std::vector<PossiblePlan>& plans) {
  OpenSwitch found;
  found.degree = degree;
  found.assumed = degree_value(plans.front().plan, degree);
  found.values.push_back({found.assumed, 0.0, 1.0});
  double all = 0.0;
  for (const PossiblePlan& possible : plans) {
    const int value = degree_value(possible.plan, degree);
    auto known = std::find_if(found.values.begin(), found.values.end(),
                              [&](const SwitchValue& other) { return other.value == value; });
    if (known == found.values.end()) known = found.values.insert(known, {value, 0.0, 1.0});
    known->share += possible.odds;
    all += possible.odds;
    if (possible.plan == with_value(plans.front().plan, degree, value)) {
      known->ratio = possible.estimate.step.total() / plans.front().estimate.step.total();
    }
  }
  for (SwitchValue& value : found.values) value.share /= all;
  return found;
}

}  // namespace

std::vector<Degree> open_switches(const PinnedDegrees& said, const Framework& framework) {
  const PinnedDegrees fixed = fixed_degrees(framework);
  std::vector<Degree> open;
  const bool level = said.has(Degree::Recompute) || said.has(Degree::RecomputeLayers) ||
                     said.has(Degree::RecomputeModules) || fixed.has(Degree::Recompute);
  if (!level) open.push_back(Degree::Recompute);
  const bool size = said.has(Degree::MicroBatch) || fixed.has(Degree::MicroBatch);
  if (!size && framework.accumulates) open.push_back(Degree::MicroBatch);
  return open;
}

std::vector<PossiblePlan> possible_plans(const PlanEvaluator& evaluator,
                                         const PossiblePlan& assumed,
                                         const std::vector<Degree>& open,
                                         const SwitchEvidence& evidence,
                                         EvaluationWorkspace& workspace) {
  std::vector<PossiblePlan> plans{assumed};
  if (open.empty()) return plans;
  plans.front().odds = 0.0;
  std::vector<std::pair<PlanDegrees, double>> found;
  add_values(assumed.plan, 1.0, open, 0, *evaluator.problem().framework, evidence, found);
  double all = 0.0;
  for (const auto& [plan, share] : found) {
    const bool own = plan == assumed.plan;
    if (!own && evaluator.obstacle(plan)) continue;
    PossiblePlan possible{plan, assumed.estimate, 0.0};
    if (!own) possible.estimate = evaluator.simulate(*evaluator.profile(plan), plan, workspace);
    possible.odds = share;
    if (!own) possible.odds *= 1.0 - evaluator.memory_risk(plan, possible.estimate.memory.total());
    all += possible.odds;
    if (own) {
      plans.front().odds = possible.odds;
    } else if (possible.odds > 0.0) {
      plans.push_back(std::move(possible));
    }
  }
  if (all <= 0.0) return {assumed};
  return plans;
}

RelativeInterval mixed_interval(const std::vector<PossiblePlan>& plans, const ErrorModel& errors,
                                int devices) {
  const auto interval_of = [&](const PossiblePlan& plan) {
    return relative_interval(errors, plan.estimate.step, devices);
  };
  if (plans.size() == 1) return interval_of(plans.front());
  const Seconds first = plans.front().estimate.step.total();
  std::vector<MixturePart> parts;
  for (const PossiblePlan& plan : plans) {
    if (plan.odds <= 0.0) continue;
    const RelativeInterval interval = interval_of(plan);
    parts.push_back({plan.estimate.step.total() / first, -std::log(interval.p10) / kNormalP90,
                     std::log(interval.p90) / kNormalP90, plan.odds});
  }
  return {mixture_quantile(parts, 0.1), mixture_quantile(parts, 0.9)};
}

std::vector<OpenSwitch> open_switches_of(const std::vector<PossiblePlan>& plans,
                                         const std::vector<Degree>& open, const ErrorModel& errors,
                                         int devices) {
  std::vector<OpenSwitch> switches;
  if (plans.size() == 1) return switches;
  for (const Degree degree : open) {
    OpenSwitch found = described(degree, plans);
    if (found.values.size() == 1) continue;
    std::vector<PossiblePlan> as_assumed;
    std::copy_if(
        plans.begin(), plans.end(), std::back_inserter(as_assumed),
        [&](const PossiblePlan& plan) { return degree_value(plan.plan, degree) == found.assumed; });
    if (as_assumed.size() == 1) as_assumed.front().odds = 1.0;
    found.stated = width(as_assumed, errors, devices);
    switches.push_back(std::move(found));
  }
  std::stable_sort(switches.begin(), switches.end(),
                   [](const OpenSwitch& a, const OpenSwitch& b) { return a.stated < b.stated; });
  return switches;
}

double share_below(const MixturePart& part, double log_time) {
  const double error = log_time - std::log(part.median);
  const double deviation = error < 0.0 ? part.below : part.above;
  if (deviation <= 0.0) return error < 0.0 ? 0.0 : 1.0;
  return normal_below(error, deviation);
}

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
