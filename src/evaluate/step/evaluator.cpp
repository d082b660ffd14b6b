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
#include "evaluate/answer/interval.hpp"
#include "evaluate/answer/operator_report.hpp"
#include "evaluate/answer/overlap_report.hpp"
#include "evaluate/block/class_profile.hpp"
#include "evaluate/memory/memory_model.hpp"
#include "evaluate/memory/memory_risk.hpp"
#include "evaluate/step/grid_bound.hpp"
#include "evaluate/step/plan_invariants.hpp"
#include "evaluate/step/priced_program.hpp"
#include "evaluate/step/step_collectives.hpp"
#include "evaluate/step/step_model.hpp"
#include "plan/legality/legality.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {

namespace {

/// The first device holds most micro-batches, the last one the loss: the worst needs no less.
Bytes least_memory(const PricingInput& view, EvaluationWorkspace& workspace) {
  const int last = view.assignment().stages() - 1;
  const Bytes first = device_memory(view, 0, workspace).memory.total();
  return last == 0 ? first : std::max(first, device_memory(view, last, workspace).memory.total());
}

/// Whether two plans agree on everything that all plans of a class have in common.
bool same_class(const PlanDegrees& a, const PlanDegrees& b) {
  const auto shared = [](const PlanDegrees& p) {
    return std::tuple(p.tensor_in, p.tensor_out, p.tensor_depth, p.context, p.context_kind,
                      p.expert, p.expert_tensor, p.sequence_parallel, p.temporal, p.micro_batch,
                      p.pieces, p.recompute, p.recompute_layers > 0);
  };
  return shared(a) == shared(b);
}

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
                           .detail = fmt::format("optimizer states need {} of {} of a host",
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

/// The fields that memory of one micro-batch does not depend on, set to one value.
PlanDegrees without_config(PlanDegrees plan) {
  plan.chunks = plan.micro_batches = 1;
  plan.schedule = kDefaultSchedule;
  return plan;
}

/// The fields that a placement does not depend on, set to one value.
PlanDegrees placement_degrees(PlanDegrees plan) {
  plan = without_config(plan);
  plan.micro_batch = plan.pieces = 1;
  plan.recompute = Recompute::None;
  plan.recompute_layers = 0;
  return plan;
}

/// The fields that a ground of one form does not depend on, set to one value.
PlanDegrees ground_degrees(PlanDegrees plan) {
  plan.micro_batch = plan.micro_batches = 1;
  plan.schedule = kDefaultSchedule;
  plan.recompute = Recompute::None;
  plan.recompute_layers = 0;
  return plan;
}

}  // namespace

struct PlanEvaluator::Implementation {
  explicit Implementation(const Problem& asked)
      : problem(asked),
        context(pricing_context(problem)),
        errors(error_model(problem)),
        grid(context),
        assignments(problem),
        profiles(context) {
    if (!runs_steps(problem.framework->operator_steps, OperatorSteps::Rings)) return;
    for (const int ranks : divisors(problem.gpus)) {
      rings.emplace(ranks, ring_placements(*problem.network, ranks));
    }
  }

  Problem problem;
  PricingContext context;
  ErrorModel errors;
  GridBound grid;
  AssignmentCache assignments;
  mutable RouteCache routes;
  ProfileMaker profiles;
  std::map<int, std::shared_ptr<const Placements>> rings;  ///< by tensor degree

  /// What degrees say of single operators; null: nothing.
  [[nodiscard]] const std::shared_ptr<const Placements>& placements(const PlanDegrees& plan) const {
    static const std::shared_ptr<const Placements> kNothing;
    return plan.temporal == Temporal::None ? kNothing : rings.at(plan.tensor_out);
  }

  [[nodiscard]] DeviceMesh mesh(const PlanDegrees& plan) const {
    DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
    const auto& placed = placements(plan);
    return placed ? with_factors(std::move(mesh), placed->factors) : mesh;
  }

  /// Adam keeps two moments, the others fewer.
  [[nodiscard]] double moments() const {
    return optimizer_moments(problem.model->training.optimizer);
  }

  [[nodiscard]] ModelStatePolicy statics(const PlanDegrees& plan, const DeviceMesh& mesh) const {
    return static_policy(tensor_policies(plan, mesh, *problem.framework, problem.precision), mesh,
                         moments());
  }

  const EarlyPlacement& placement(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
    EarlyPlacement& known = workspace.placement;
    const PlanDegrees degrees = placement_degrees(plan);
    if (known.context == context.id && known.degrees == degrees) return known;
    const DeviceMesh where = mesh(plan);
    known = {context.id, degrees, statics(plan, where),
             profiles.placed(plan, where, placements(plan))};
    return known;
  }

  void fill_memory(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
    EarlyProfile& early = workspace.early;
    const bool known = early.context == context.id &&
                       without_config(early.profile.made_for) == without_config(plan);
    if (!known) profiles.fill_memory(plan, placement(plan, workspace).placed, early);
  }

  /// The ground of a uniform plan: a known one where its degrees are the same.
  PlanInvariants& ground(const ClassProfile& profile, const PlanDegrees& plan,
                         EvaluationWorkspace& workspace) const {
    // A profile of another class would give a price without a meaning.
    PLANSEARCH_CHECK(same_class(profile.made_for, plan));
    const PlanDegrees degrees = ground_degrees(plan);
    PlanInvariants& ground =
        workspace.grounds[{plan.chunks, schedule_row(plan.schedule).placement}];
    const bool known = ground.context == context.id && ground.degrees == degrees;
    if (!known) {
      ground.mesh = mesh(plan);
      ground.transforms.assign(
          1, {&plan, &ground.mesh, &profile, statics(plan, ground.mesh), placements(plan).get()});
      ground.routed = &assignments.get(plan, ground.mesh);
      complete_kinds(context, ground);
      ground.messages_known = false;
      ground.degrees = degrees;
      ground.context = context.id;
    }
    ground.transforms.front().degrees = &plan;
    ground.transforms.front().profile = &profile;
    return ground;
  }

  /// Calls visit(view) of a view that has no messages of the end of a step.
  template <typename Visit>
  auto with_bound_view(const ClassProfile& profile, const PlanDegrees& plan,
                       EvaluationWorkspace& workspace, Visit visit) const {
    const PlanInvariants& known = ground(profile, plan, workspace);
    return visit(PricingInput{context, known, Order{plan.schedule, plan.micro_batches}});
  }

  template <typename Visit>
  auto with_view(const ClassProfile& profile, const PlanDegrees& plan,
                 EvaluationWorkspace& workspace, Visit visit) const {
    PlanInvariants& known = ground(profile, plan, workspace);
    complete_messages(context, known);
    return visit(PricingInput{context, known, Order{plan.schedule, plan.micro_batches}});
  }

  /// The same for any plan, its profiles found here.
  template <typename Visit>
  auto with_view(const ParallelPlan& plan, Visit visit) const {
    std::vector<std::shared_ptr<const ClassProfile>> held;
    PlanInvariants ground;
    for (const Transform& transform : plan.transforms) {
      held.push_back(profiles.profile(transform.degrees, transform.mesh, transform.placements));
      ground.transforms.push_back({&transform.degrees, &transform.mesh, held.back().get(),
                                   statics(transform.degrees, transform.mesh),
                                   transform.placements.get()});
    }
    const LinkedAssignment ways = routed(*problem.cluster, plan, &routes);
    ground.routed = &ways;
    complete_kinds(context, ground);
    complete_messages(context, ground);
    return visit(PricingInput{context, ground, plan.order});
  }

  [[nodiscard]] Estimate evaluate(const PricingInput& view, MakespanMethod method,
                                  EvaluationWorkspace& workspace) const {
    Estimate estimate;
    const StepResult result = step_time(view, method, workspace);
    estimate.step = result.step;
    estimate.imbalance = result.imbalance;
    estimate.busiest_stage = result.busiest;
    estimate.next_step_overlap = result.next_step_overlap;
    DeviceMemory worst = worst_device_memory(view, workspace);
    if (method == MakespanMethod::Simulation && is_listed(problem)) {
      worst = listed_device_memory(view, workspace);
    }
    estimate.memory = worst.memory;
    for (const StageClassStates& kind : view.ground.kinds) {
      estimate.host_memory = std::max(estimate.host_memory, kind.offload.memory);
    }
    estimate.worst_memory_stage = worst.device;
    const RelativeInterval interval = relative_interval(errors, estimate.step, problem.gpus);
    estimate.relative_p10 = interval.p10;
    estimate.relative_p90 = interval.p90;
    return estimate;
  }
};

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

PlanBound PlanEvaluator::grid_bound(const PlanDegrees& plan) const {
  return implementation_->grid.of(plan, implementation_->statics(plan, implementation_->mesh(plan)),
                                  {});
}

PlanBound PlanEvaluator::placed_bound(const PlanDegrees& plan,
                                      EvaluationWorkspace& workspace) const {
  const EarlyPlacement& early = implementation_->placement(plan, workspace);
  return implementation_->grid.of(
      plan, early.statics,
      implementation_->profiles.least_waits(early.placed, plan.micro_batch / plan.pieces));
}

PlanBound PlanEvaluator::bound(const ClassProfile& profile, const PlanDegrees& plan,
                               EvaluationWorkspace& workspace) const {
  return implementation_->with_bound_view(profile, plan, workspace, [&](const PricingInput& view) {
    PlanBound bound;
    bound.step_time = step_time_bound(view, workspace);
    bound.memory = least_memory(view, workspace);
    return bound;
  });
}

Bytes PlanEvaluator::memory_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  implementation_->fill_memory(plan, workspace);
  return implementation_->with_bound_view(
      workspace.early.profile, plan, workspace,
      [&](const PricingInput& view) { return least_memory(view, workspace); });
}

Seconds PlanEvaluator::kernel_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  EarlyProfile& early = workspace.early;
  implementation_->fill_memory(plan, workspace);
  if (!early.timed) implementation_->profiles.fill_least_times(early);
  return implementation_->with_bound_view(
      early.profile, plan, workspace,
      [&](const PricingInput& view) { return step_time_bound(view, workspace); });
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
    return PlanDetails{communication_of(implementation_->profiles, view, *workspace),
                       stages_of_view(view, *workspace),
                       operators_at(implementation_->profiles, view, busiest),
                       hidden_at(implementation_->profiles, view, busiest)};
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

Bytes PlanEvaluator::memory_limit() const {
  return problem_.cluster->accelerator.memory - problem_.memory_reserve;
}

double PlanEvaluator::memory_risk(Bytes predicted) const {
  return risk_of_memory(implementation_->context.constants.memory_error, predicted, memory_limit());
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
                      memory_limit());
}

FlopRate PlanEvaluator::matmul_peak() const {
  return problem_.cluster->accelerator
      .peak[static_cast<std::size_t>(implementation_->context.precision.matmul)]
      .value();
}

}  // namespace plansearch
