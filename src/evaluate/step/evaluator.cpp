// SPDX-License-Identifier: Apache-2.0
// Computes: estimate and simulated evaluation of a plan.
// Source: block profiles (block_profile.cpp) composed into groups, pipeline and step.
// Assumes: plans are legal; the caller passes the profile of the plan's own class.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/plan_evaluator_test.cpp, bound_test.cpp
#include "plansearch/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.hpp"
#include "evaluate/memory/memory_model.hpp"
#include "evaluate/step/plan_views.hpp"
#include "evaluate/step/priced_program.hpp"
#include "evaluate/step/step_model.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/error.hpp"

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

/// `listed`: see listed_step, of a plan that is simulated.
Estimate price(const PlanViews& views, const PricingInput& view, MakespanMethod method,
               const ListedStep* listed, EvaluationWorkspace& workspace) {
  Estimate estimate;
  const StepResult result = step_time(view, method, workspace, listed);
  estimate.step = result.step;
  estimate.imbalance = result.imbalance;
  estimate.busiest_stage = result.busiest;
  estimate.next_step_overlap = result.next_step_overlap;
  const DeviceMemory worst = listed != nullptr ? listed_device_memory(view, *listed, workspace)
                                               : worst_device_memory(view, workspace);
  estimate.memory = worst.memory;
  for (const StageClassStates& kind : view.invariants.kinds) {
    estimate.host_memory = std::max(estimate.host_memory, kind.offload.memory);
  }
  estimate.host_memory += (worst.on_host + worst.paged) *
                          std::min(view.problem.cluster->accelerators_per_node, view.problem.gpus);
  if (worst.paged > Bytes(0)) {  // out after an update, and back for the next one
    const Host& host = view.problem.cluster->host.value();
    estimate.step.optimizer += worst.paged / host.from_device + worst.paged / host.to_device;
  }
  estimate.worst_memory_stage = worst.device;
  const RelativeInterval interval =
      relative_interval(views.errors, estimate.step, view.problem.gpus);
  estimate.relative_p10 = interval.p10;
  estimate.relative_p90 = interval.p90;
  return estimate;
}

/// The estimate itself where its memory is there more likely than not, else why not.
Evaluation within(const Estimate& estimate, const PlanDegrees& plan,
                  const PlanEvaluator& evaluator) {
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
  if (evaluator.memory_fit(plan, needed) != MemoryFit::No) return estimate;
  const Bytes limit = evaluator.memory_limit();
  return InfeasiblePlan{
      {.obstacle = Obstacle::OutOfMemory,
       .needed = needed.value(),
       .available = limit.value(),
       .detail = fmt::format("stage {} needs {} of {}: {:.0f} % likely to run out of memory",
                             estimate.worst_memory_stage, to_text(needed), to_text(limit),
                             100.0 * evaluator.memory_risk(plan, needed))},
      estimate};
}

}  // namespace

void EvaluationWorkspaceDeleter::operator()(EvaluationWorkspace* workspace) const {
  delete workspace;
}

EvaluationWorkspacePtr PlanEvaluator::make_workspace() {
  return EvaluationWorkspacePtr(new EvaluationWorkspace);
}

PlanEvaluator::PlanEvaluator(Problem problem, std::shared_ptr<const ProfileMaker> profiles)
    : problem_(std::move(problem)),
      views_(std::make_unique<const PlanViews>(problem_, std::move(profiles))) {}

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
  return views_->profiles->profile(plan, views_->mesh(plan), views_->placements(plan));
}

Estimate PlanEvaluator::estimate(const ClassProfile& profile, const PlanDegrees& plan,
                                 EvaluationWorkspace& workspace) const {
  return views_->with_view(profile, plan, workspace, [&](const PricingInput& view) {
    return price(*views_, view, MakespanMethod::ClosedForm, nullptr, workspace);
  });
}

Estimate PlanEvaluator::simulate(const ClassProfile& profile, const PlanDegrees& plan,
                                 EvaluationWorkspace& workspace) const {
  return views_->with_view(profile, plan, workspace, [&](const PricingInput& view) {
    const auto listed = views_->listed(plan, view, workspace);
    return price(*views_, view, MakespanMethod::Simulation, listed.get(), workspace);
  });
}

DeviceMemory PlanEvaluator::stage_memory(const ClassProfile& profile, const PlanDegrees& plan,
                                         int stage, EvaluationWorkspace& workspace) const {
  return views_->with_bound_view(profile, plan, workspace, [&](const PricingInput& view) {
    return device_memory(view, stage, workspace);
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
  return views_->with_view(plan, [&](const PricingInput& view) -> Evaluation {
    try {
      const auto listed = listed_step(view, *workspace);
      return within(price(*views_, view, MakespanMethod::Simulation, listed.get(), *workspace),
                    plan.transform_at(0).degrees, *this);
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
  if (!bad && !views_->profiles->is_own(profile, degrees, views_->mesh(degrees))) {
    bad = Infeasible{.obstacle = Obstacle::NoSuchFeature,
                     .detail = "the class profile is another plan's or another problem's"};
  }
  if (bad) return InfeasiblePlan{*std::move(bad), std::nullopt};
  return within(simulate(profile, degrees, workspace), degrees, *this);
}

Bytes PlanEvaluator::memory_limit() const {
  return problem_.cluster->accelerator.memory - problem_.memory_reserve;
}

Bytes PlanEvaluator::certain_memory(const PlanDegrees& plan) const {
  if (!views_->grid.has_frozen()) return Bytes(0);
  const ModelStatePolicy statics = views_->statics(plan, views_->mesh(plan));
  return std::min(views_->grid.frozen_bytes(plan, statics), memory_limit());
}

double PlanEvaluator::memory_risk(const PlanDegrees& plan, Bytes predicted) const {
  return risk_of_memory(views_->context.constants.memory_error, predicted, memory_limit(),
                        certain_memory(plan));
}

bool PlanEvaluator::host_fits(const Estimate& estimate) const {
  const auto& host = problem_.cluster->host;
  return !host || estimate.host_memory <= host->memory;
}

MemoryFit PlanEvaluator::memory_fit(const PlanDegrees& plan, Bytes predicted) const {
  const Bytes certain = certain_memory(plan);
  for (const MemoryFit fit : {MemoryFit::Fits, MemoryFit::Tight}) {
    if (predicted <= memory_up_to(fit, certain)) return fit;
  }
  return MemoryFit::No;
}

Bytes PlanEvaluator::memory_up_to(MemoryFit fit, Bytes certain) const {
  PLANSEARCH_CHECK(fit != MemoryFit::No);
  return certain + (memory_limit() - certain) *
                       (fit == MemoryFit::Fits ? views_->fitting_share : views_->tight_share);
}

}  // namespace plansearch
