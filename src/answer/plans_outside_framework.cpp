// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "answer/make_report.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plan/legality/legality.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/gangs.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/stop_token.hpp"
#include "question/framework_flags.hpp"
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
    if (row.tuned || std::ranges::find(listed, id) != listed.end()) continue;
    PlanDegrees other = plan;
    other.schedule = id;
    if (!row.chunks.contains(other.chunks)) other.chunks = row.chunks.fewest;
    const PipelineShape shape = pipeline_shape(other, framework, network);
    if (fault_of(shape)) continue;
    plans.push_back(other);
  }
  return plans;
}

/// Degrees that make sense together alone.
constexpr std::array kParts{
    DegreeSet{Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth, Degree::SequenceParallel},
    DegreeSet{Degree::Temporal},
    DegreeSet{Degree::Pipeline, Degree::Chunks, Degree::Schedule},
    DegreeSet{Degree::Context, Degree::ContextKind},
    DegreeSet{Degree::Expert, Degree::ExpertTensor},
    DegreeSet{Degree::Zero, Degree::ShardGroup, Degree::Offload},
    DegreeSet{Degree::Recompute, Degree::RecomputeLayers},
    DegreeSet{Degree::Pieces},
};

template <typename Runs>
std::string names_of(const std::vector<Framework>& programs, Runs runs) {
  std::vector<std::string> names;
  for (const Framework& program : programs) {
    if (runs(program)) names.push_back(program.name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// The degrees of a part where they do something.
PinnedDegrees chosen(const PlanDegrees& plan, DegreeSet part) {
  const PlanDegrees neutral;
  PinnedDegrees degrees;
  for (const DegreeRow& row : degree_table()) {
    if (part.contains(row.degree) && row.get(plan) != row.get(neutral)) {
      degrees.pin(row.degree, row.get(plan));
    }
  }
  return degrees;
}

/// The steps in which a plan that is written out runs single operators.
OperatorSteps steps_of(const PlanCandidate& candidate) {
  if (!candidate.written) return OperatorSteps::None;
  for (const Transform& transform : candidate.written->transforms) {
    if (!transform.placements) continue;
    if (transform.placements->over_squares()) return OperatorSteps::Squares;
    if (transform.placements->over_rings()) return OperatorSteps::Rings;
  }
  return OperatorSteps::None;
}

bool runs(const PlanCandidate& candidate, const Problem& problem, const Framework& program) {
  const Network& network = *problem.network;
  if (!candidate.written) {
    return !check_legality(candidate.plan, network, program, problem.gpus, problem.precision);
  }
  const OperatorSteps steps = steps_of(candidate);
  if (steps != OperatorSteps::None && check_steps(program, steps)) return false;
  if (candidate.written->order.window && check_shared_devices(program)) return false;
  return !check_plan(*candidate.written, network, program, problem.gpus, problem.global_batch,
                     problem.precision);
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
      const bool known =
          std::ranges::any_of(found, [&](const PlanCandidate& f) { return f.plan == plan; });
      if (known || beyond.obstacle(plan)) continue;
      if (ladder.bound(Rung::EndStages, plan).memory > beyond.memory_limit()) continue;
      const Estimate estimate = beyond.simulate(*beyond.profile(plan), plan, *workspace);
      if (beyond.memory_fit(estimate.memory.total()) != MemoryFit::Fits) continue;
      found.push_back({plan, estimate});
      check_work();
    }
  }
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) {
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

std::string programs_for(const Problem& problem, const PlanCandidate& first) {
  const std::vector<Framework>& all = shipped_programs();
  const Network& network = *problem.network;
  const std::string whole =
      names_of(all, [&](const Framework& program) { return runs(first, problem, program); });
  std::string text = fmt::format("no program is called {}; plan 1 as a whole runs in: {}",
                                 problem.framework->name, whole);
  if (whole != "none") return text;
  const PlanDegrees& degrees = first.plan;
  for (const DegreeSet part : kParts) {
    const PinnedDegrees own = chosen(degrees, part);
    if (own.empty()) continue;
    PlanDegrees alone;
    alone.data = degrees.data * degrees.tensor();  // a group to shard over
    if (own.has(Degree::Temporal)) alone = degrees;
    const PlanDegrees asked = with_pinned(alone, own);
    text += fmt::format("; {} in: {}", to_text(own), names_of(all, [&](const Framework& program) {
                          return !check_transform(asked, network, program, problem.precision);
                        }));
  }
  const OperatorSteps steps = steps_of(first);
  if (steps != OperatorSteps::None) {
    text += fmt::format("; operators in steps in: {}", names_of(all, [&](const Framework& program) {
                          return runs_steps(program.operator_steps, steps);
                        }));
  }
  return text;
}

}  // namespace plansearch
