// SPDX-License-Identifier: Apache-2.0
// Computes: bound, estimate and simulated evaluation of a plan.
// Source: block profiles (block_profile.cpp) composed into groups, pipeline and step.
// Assumes: plans are legal; the caller passes the profile of the plan's own class.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/plan_evaluator_test.cpp, bound_test.cpp, stages_test.cpp
#include "plansearch/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/divisors.hpp"
#include "base/units.hpp"
#include "communication/derive/derive.hpp"
#include "evaluate/answer/communication_report.hpp"
#include "evaluate/answer/held_at_peak.hpp"
#include "evaluate/answer/interval.hpp"
#include "evaluate/answer/operator_report.hpp"
#include "evaluate/answer/overlap_report.hpp"
#include "evaluate/answer/redistributions.hpp"
#include "evaluate/answer/step_nodes.hpp"
#include "evaluate/block/class_profile.hpp"
#include "evaluate/memory/memory_model.hpp"
#include "evaluate/step/evaluator_parts.hpp"
#include "evaluate/step/grid_bound.hpp"
#include "evaluate/step/plan_invariants.hpp"
#include "evaluate/step/priced_program.hpp"
#include "evaluate/step/step_collectives.hpp"
#include "evaluate/step/step_model.hpp"
#include "evaluate/step/windowed_step.hpp"
#include "plan/legality/legality.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {

namespace {

std::optional<Infeasible> check_batch(const PlanDegrees& plan, const Problem& problem) {
  if (plan.global_batch() == problem.global_batch) return std::nullopt;
  return Infeasible{.obstacle = Obstacle::BatchNotDivisible,
                    .needed = static_cast<double>(plan.global_batch()),
                    .available = static_cast<double>(problem.global_batch),
                    .detail = fmt::format("the plan takes {} sequences per step, not {}",
                                          plan.global_batch(), problem.global_batch)};
}

/// The estimate itself where its memory is there more likely than not, else why not.
Evaluation within(const Estimate& estimate, const PlanEvaluator& evaluator) {
  const Bytes needed = estimate.memory.total();
  if (!evaluator.host_fits(estimate)) {
    const Bytes there = evaluator.problem().cluster->host.value().memory;
    return InfeasiblePlan{{.obstacle = Obstacle::OutOfMemory,
                           .needed = estimate.host_memory.value(),
                           .available = there.value(),
                           .detail = fmt::format("what is offloaded needs {} of {} of a host",
                                                 to_text(estimate.host_memory), to_text(there))},
                          estimate};
  }
  if (evaluator.memory_fit(needed) != MemoryFit::No) return estimate;
  const Bytes limit = evaluator.memory_limit();
  return InfeasiblePlan{
      {.obstacle = Obstacle::OutOfMemory,
       .needed = needed.value(),
       .available = limit.value(),
       .detail = fmt::format("stage {} needs {} of {}: {:.0f} % likely to run out of memory",
                             estimate.worst_memory_stage, to_text(needed), to_text(limit),
                             100.0 * evaluator.memory_risk(needed))},
      estimate};
}

}  // namespace

void EvaluationWorkspaceDeleter::operator()(EvaluationWorkspace* workspace) const {
  delete workspace;
}

EvaluationWorkspacePtr PlanEvaluator::make_workspace() {
  return EvaluationWorkspacePtr(new EvaluationWorkspace);
}

PlanEvaluator::PlanEvaluator(Problem problem)
    : problem_(std::move(problem)),
      implementation_(std::make_unique<const Implementation>(problem_)) {}

PlanEvaluator::~PlanEvaluator() = default;

std::optional<Infeasible> PlanEvaluator::legality(const PlanDegrees& plan) const {
  return check_legality(plan, *problem_.network, *problem_.framework, problem_.gpus,
                        problem_.precision);
}

std::optional<Obstacle> PlanEvaluator::obstacle(const PlanDegrees& plan) const {
  return find_obstacle(plan, *problem_.network, *problem_.framework, problem_.gpus,
                       problem_.precision);
}

std::shared_ptr<const ClassProfile> PlanEvaluator::profile(const PlanDegrees& plan) const {
  return implementation_->profiles.profile(plan, implementation_->mesh(plan),
                                           implementation_->placements(plan));
}

Estimate PlanEvaluator::estimate(const ClassProfile& profile, const PlanDegrees& plan,
                                 EvaluationWorkspace& workspace) const {
  return implementation_->with_view(profile, plan, workspace, [&](const PricingInput& view) {
    return implementation_->evaluate(view, MakespanMethod::ClosedForm, workspace);
  });
}

Estimate PlanEvaluator::simulate(const ClassProfile& profile, const PlanDegrees& plan,
                                 EvaluationWorkspace& workspace) const {
  return implementation_->with_view(profile, plan, workspace, [&](const PricingInput& view) {
    return implementation_->evaluate(view, MakespanMethod::Simulation, workspace);
  });
}

DeviceMemory PlanEvaluator::stage_memory(const ClassProfile& profile, const PlanDegrees& plan,
                                         int stage, EvaluationWorkspace& workspace) const {
  return implementation_->with_bound_view(profile, plan, workspace, [&](const PricingInput& view) {
    return device_memory(view, stage, workspace);
  });
}

std::vector<PricedCommunication> PlanEvaluator::communication(
    const ClassProfile& profile, const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  return implementation_->with_view(profile, plan, workspace, [&](const PricingInput& view) {
    return communication_of(implementation_->profiles, view, workspace);
  });
}

std::vector<StageReport> PlanEvaluator::stages(const ClassProfile& profile, const PlanDegrees& plan,
                                               EvaluationWorkspace& workspace) const {
  return implementation_->with_view(profile, plan, workspace, [&](const PricingInput& view) {
    return stages_of_view(view, workspace);
  });
}

std::vector<OperatorReport> PlanEvaluator::operators(const ClassProfile& profile,
                                                     const PlanDegrees& plan, int stage,
                                                     EvaluationWorkspace& workspace) const {
  return implementation_->with_view(profile, plan, workspace, [&](const PricingInput& view) {
    return operators_at(implementation_->profiles, view, stage);
  });
}

std::variant<ParallelPlan, Infeasible> PlanEvaluator::expand(const PlanDegrees& degrees) const {
  if (auto infeasible = legality(degrees)) return *std::move(infeasible);
  return plansearch::expand(degrees, *problem_.network, *problem_.framework);
}

std::optional<Infeasible> PlanEvaluator::legality(const ParallelPlan& plan) const {
  return check_plan(plan, *problem_.network, *problem_.framework, problem_.gpus,
                    problem_.global_batch, problem_.precision);
}

Evaluation PlanEvaluator::evaluate(const ParallelPlan& plan) const {
  if (auto bad = legality(plan)) return InfeasiblePlan{*std::move(bad), std::nullopt};
  const auto workspace = make_workspace();
  return implementation_->with_view(plan, [&](const PricingInput& view) -> Evaluation {
    try {
      return within(implementation_->evaluate(view, MakespanMethod::Simulation, *workspace), *this);
    } catch (const SimulationLimit& limit) {
      return InfeasiblePlan{{.obstacle = Obstacle::BeyondSimulation,
                             .detail = fmt::format("{}; {}", limit.what(), limit.hint())},
                            std::nullopt};
    }
  });
}

Evaluation PlanEvaluator::evaluate(const PlanDegrees& degrees) const {
  if (auto bad = check_range(degrees)) return InfeasiblePlan{*std::move(bad), std::nullopt};
  auto plan = expand(degrees);
  if (auto* bad = std::get_if<Infeasible>(&plan)) return InfeasiblePlan{std::move(*bad), {}};
  return evaluate(std::get<ParallelPlan>(plan));
}

Evaluation PlanEvaluator::evaluate(const ClassProfile& profile, const PlanDegrees& degrees,
                                   EvaluationWorkspace& workspace) const {
  auto bad = check_range(degrees);
  if (!bad) bad = legality(degrees);
  if (!bad) bad = check_batch(degrees, problem_);
  if (!bad && !implementation_->profiles.is_own(profile, degrees, implementation_->mesh(degrees))) {
    bad = Infeasible{.obstacle = Obstacle::NoSuchFeature,
                     .detail = "the class profile is another plan's or another problem's"};
  }
  if (bad) return InfeasiblePlan{*std::move(bad), std::nullopt};
  return within(simulate(profile, degrees, workspace), *this);
}

PlanDetails PlanEvaluator::details(const ParallelPlan& plan) const {
  const auto workspace = make_workspace();
  return implementation_->with_view(plan, [&](const PricingInput& view) {
    const int busiest = step_time(view, MakespanMethod::Simulation, *workspace).busiest;
    PlanDetails details{communication_of(implementation_->profiles, view, *workspace),
                        stages_of_view(view, *workspace),
                        operators_at(implementation_->profiles, view, busiest),
                        hidden_at(implementation_->profiles, view, busiest),
                        held_at_peak(implementation_->profiles, view, *workspace)};
    if (view.order.window) details.order = found_order(view, *workspace);
    return details;
  });
}

std::vector<Redistribution> PlanEvaluator::redistributions(const ParallelPlan& plan) const {
  return implementation_->with_view(plan, [&](const PricingInput& view) {
    return redistributions_of(implementation_->profiles, view);
  });
}

std::shared_ptr<const PricedProgram> PlanEvaluator::program(const ParallelPlan& plan,
                                                            const ProgramRequest& request) const {
  const auto workspace = make_workspace();
  return implementation_->with_view(plan, [&](const PricingInput& view) {
    auto program = std::make_shared<PricedProgram>(priced_program(view, request, *workspace));
    const int busiest = step_time(view, MakespanMethod::Simulation, *workspace).busiest;
    program->blocks = timelines_at(implementation_->profiles, view, busiest);
    return std::shared_ptr<const PricedProgram>(std::move(program));
  });
}

std::shared_ptr<const StepNodes> PlanEvaluator::nodes(const ParallelPlan& plan) const {
  const auto workspace = make_workspace();
  return implementation_->with_view(plan, [&](const PricingInput& view) {
    return std::make_shared<const StepNodes>(
        step_nodes(implementation_->profiles, view, *workspace));
  });
}

Bytes PlanEvaluator::memory_limit() const {
  return problem_.cluster->accelerator.memory - problem_.memory_reserve;
}

double PlanEvaluator::memory_risk(Bytes predicted) const {
  return risk_of_memory(implementation_->context.constants.memory_error, predicted, memory_limit(),
                        implementation_->certain_memory());
}

bool PlanEvaluator::host_fits(const Estimate& estimate) const {
  const auto& host = problem_.cluster->host;
  return !host || estimate.host_memory <= host->memory;
}

MemoryFit PlanEvaluator::memory_fit(Bytes predicted) const {
  for (const MemoryFit fit : {MemoryFit::Fits, MemoryFit::Tight}) {
    if (predicted <= memory_up_to(fit)) return fit;
  }
  return MemoryFit::No;
}

Bytes PlanEvaluator::memory_up_to(MemoryFit fit) const {
  PLANSEARCH_CHECK(fit != MemoryFit::No);
  const double accepted = problem_.memory_risk;
  return peak_at_risk(implementation_->context.constants.memory_error,
                      fit == MemoryFit::Fits ? accepted : std::max(accepted, kTightMemoryRisk),
                      memory_limit(), implementation_->certain_memory());
}

FlopRate PlanEvaluator::matmul_peak() const {
  return problem_.cluster->accelerator
      .peak[static_cast<std::size_t>(implementation_->context.precision.matmul)]
      .value();
}

}  // namespace plansearch
