// SPDX-License-Identifier: Apache-2.0
#include "answer/make_report.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include "evaluate/step/bound_ladder.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kLooked = 4;  ///< ranked plans whose variations are tried
constexpr std::size_t kShown = 3;   ///< of one kind

/// The same plan under every order that is not listed. Orders made for the case are left out: to
/// make one takes as long as a whole search.
std::vector<PlanDegrees> other_orders(const PlanDegrees& plan, const Framework& framework,
                                      const Network& network) {
  std::vector<PlanDegrees> plans;
  if (plan.pipeline == 1) return plans;
  const std::vector<ScheduleId> listed = schedules_of(framework);
  for (const ScheduleId id : all_schedules()) {
    const Schedule& row = schedule_row(id);
    if (!suits(id, network)) continue;
    if (row.tuned || std::find(listed.begin(), listed.end(), id) != listed.end()) continue;
    PlanDegrees other = plan;
    other.schedule = id;
    if (!row.chunks.contains(other.chunks)) other.chunks = row.chunks.fewest;
    const PipelineShape shape = pipeline_shape(other, framework, network);
    if (fault_of(shape)) continue;
    plans.push_back(other);
  }
  return plans;
}

}  // namespace

std::vector<BeyondReport> beyond_framework(const PlanEvaluator& evaluator,
                                           std::span<const PlanCandidate> ranked) {
  std::vector<BeyondReport> reports;
  if (ranked.empty()) return reports;
  Problem problem = evaluator.problem();
  Framework wider = *problem.framework;
  wider.schedules = schedule_names();
  problem.framework = std::make_shared<const Framework>(std::move(wider));
  const PlanEvaluator beyond(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  BoundLadder ladder(beyond, *workspace);
  std::vector<PlanCandidate> found;
  for (const PlanCandidate& candidate : ranked.first(std::min(kLooked, ranked.size()))) {
    for (const PlanDegrees& plan : other_orders(candidate.plan, *evaluator.problem().framework,
                                                *evaluator.problem().network)) {
      const bool known = std::any_of(found.begin(), found.end(),
                                     [&](const PlanCandidate& f) { return f.plan == plan; });
      if (known || beyond.obstacle(plan)) continue;
      if (ladder.bound(Rung::EndStages, plan).memory > beyond.memory_limit()) continue;
      const Estimate estimate = beyond.simulate(*beyond.profile(plan), plan, *workspace);
      if (beyond.memory_fit(estimate.memory.total()) != MemoryFit::Fits) continue;
      found.push_back({plan, estimate});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.estimate.step.total() < b.estimate.step.total();
  });
  const double sigma = problem.framework->constants.paired_sigma;
  const Seconds best = ranked.front().estimate.step.total();
  std::set<ScheduleId> shown;  // the best plan of each order
  for (const PlanCandidate& plan : found) {
    const double surely = probability_faster(plan.estimate.step.total(), best, sigma);
    if (surely < kTieProbability || shown.size() == kShown) break;
    if (!shown.insert(plan.plan.schedule).second) continue;
    reports.push_back(
        {"orders that it does not run", report_plan(beyond, plan.plan, plan.estimate)});
  }
  return reports;
}

}  // namespace plansearch
