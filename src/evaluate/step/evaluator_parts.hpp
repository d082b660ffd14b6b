// SPDX-License-Identifier: Apache-2.0
// What an evaluator holds, and the views of a plan that bounds and prices read. Private to it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "base/divisors.hpp"
#include "evaluate/answer/interval.hpp"
#include "evaluate/block/class_profile.hpp"
#include "evaluate/block/profile_maker.hpp"
#include "evaluate/memory/memory_model.hpp"
#include "evaluate/step/grid_bound.hpp"
#include "evaluate/step/plan_invariants.hpp"
#include "evaluate/step/priced_program.hpp"
#include "evaluate/step/step_collectives.hpp"
#include "evaluate/step/step_model.hpp"
#include "plan/legality/legality.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "schedule/table.hpp"

namespace plansearch {

/// Whether two plans agree on everything that all plans of a class have in common.
[[nodiscard]] inline bool same_class(const PlanDegrees& a, const PlanDegrees& b) {
  const auto shared = [](const PlanDegrees& p) {
    return std::tuple(p.tensor_in, p.tensor_out, p.tensor_depth, p.context, p.context_kind,
                      p.expert, p.expert_tensor, p.sequence_parallel, p.temporal, p.micro_batch,
                      p.pieces, p.recompute, p.recompute_layers > 0, p.modules, p.dispatcher,
                      p.on_host);
  };
  return shared(a) == shared(b);
}

/// Whatever its chunks and order.
[[nodiscard]] inline PlanDegrees without_config(PlanDegrees plan) {
  plan.chunks = plan.micro_batches = 1;
  plan.schedule = kDefaultSchedule;
  return plan;
}

/// The fields that a placement does not depend on, set to one value.
[[nodiscard]] inline PlanDegrees placement_degrees(PlanDegrees plan, const Framework& framework) {
  plan = without_config(plan);
  plan.micro_batch = plan.pieces = 1;
  plan.recompute = Recompute::None;
  plan.recompute_layers = 0;
  plan.modules = 0;
  plan.dispatcher = placed_dispatcher(framework, plan.dispatcher);
  return plan;
}

/// The fields that a ground of one form does not depend on, set to one value.
[[nodiscard]] inline PlanDegrees ground_degrees(PlanDegrees plan) {
  plan.micro_batch = plan.micro_batches = 1;
  plan.schedule = kDefaultSchedule;
  plan.recompute = Recompute::None;
  plan.recompute_layers = 0;
  plan.modules = 0;
  plan.dispatcher = kOwnDispatcher;
  return plan;
}

struct PlanEvaluator::Implementation {
  explicit Implementation(const Problem& asked)
      : problem(asked),
        context(pricing_context(problem)),
        errors(error_model(problem)),
        grid(context),
        assignments(problem),
        profiles(context) {
    for (LegalityCondition& condition : legality_conditions(*problem.network, *problem.framework,
                                                            problem.gpus, problem.precision)) {
      if (!condition.reads.contains(Degree::RecomputeModules)) continue;
      on_modules.push_back(std::move(condition));
    }
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
  std::vector<LegalityCondition> on_modules;  ///< those that look at the modules of a plan
  std::map<int, std::shared_ptr<const Placements>> rings;  ///< by tensor degree

  /// Of every device, the share of weights that are not trained. Nothing where they have no room:
  /// what fits has them elsewhere.
  [[nodiscard]] Bytes certain_memory() const {
    const Bytes limit = problem.cluster->accelerator.memory - problem.memory_reserve;
    const Bytes frozen = grid.frozen_bytes() * (1.0 / problem.gpus);
    return frozen < limit ? frozen : Bytes(0);
  }

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
    const PlanDegrees degrees = placement_degrees(plan, *problem.framework);
    const bool own = degrees.dispatcher == kOwnDispatcher;
    EarlyPlacement& known = own ? workspace.placement : workspace.dispatched;
    if (known.context == context.id && known.degrees == degrees) return known;
    const DeviceMesh where = mesh(plan);
    known = {context.id, degrees, statics(plan, where),
             profiles.placed(plan, where, placements(plan))};
    return known;
  }

  /// Where the dispatcher is open: as under the framework's own.
  const EarlyPlacement& early(PlanDegrees plan, EvaluationWorkspace& workspace) const {
    if (plan.dispatcher == kAnyDispatcher) plan.dispatcher = kOwnDispatcher;
    return placement(plan, workspace);
  }

  /// Of a piece with this work, under the plan's dispatcher or any that is tried.
  Seconds least_time(const PlanDegrees& plan, const NetworkWork& work,
                     EvaluationWorkspace& workspace) const {
    const bool joined = profiles.joins(plan.schedule);
    const auto time = [&](const BlockWaits& waits) {
      return joined ? grid.joined_time(plan, work, waits) : grid.step_time(plan, work, waits);
    };
    if (plan.dispatcher != kAnyDispatcher) {
      return time(
          profiles.least_waits(placement(plan, workspace).placed, piece_of(plan), plan.dispatcher));
    }
    const std::vector<BlockWaits>& tried = tried_waits(plan, workspace);
    Seconds least = time(tried.front());
    for (const BlockWaits& waits : tried) least = std::min(least, time(waits));
    return least;
  }

  const std::vector<BlockWaits>& tried_waits(PlanDegrees plan,
                                             EvaluationWorkspace& workspace) const {
    TriedWaits& known = workspace.tried;
    const Piece piece = piece_of(plan);
    plan.dispatcher = kOwnDispatcher;
    const auto& own = placement(plan, workspace).placed;
    if (known.context == context.id && known.placed == own && known.piece == piece) {
      return known.waits;
    }
    known = {context.id, own, piece, {}};
    for (const DispatcherId id : profiles.tried()) {
      plan.dispatcher = id;
      known.waits.push_back(profiles.least_waits(placement(plan, workspace).placed, piece, id));
    }
    return known.waits;
  }

  /// The fields that memory of one micro-batch does not depend on, set to one value.
  [[nodiscard]] PlanDegrees memory_degrees(PlanDegrees plan) const {
    plan = without_config(plan);
    plan.dispatcher = placed_dispatcher(*problem.framework, plan.dispatcher);
    return plan;
  }

  void fill_memory(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
    EarlyProfile& early = workspace.early;
    const bool known = early.context == context.id &&
                       memory_degrees(early.profile.made_for) == memory_degrees(plan);
    if (!known) return profiles.fill_memory(plan, placement(plan, workspace).placed, early);
    early.profile.made_for = plan;
  }

  /// The plan without recomputation.
  static PlanDegrees keeping_all(PlanDegrees plan) {
    plan.recompute = Recompute::None;
    plan.recompute_layers = 0;
    plan.modules = 0;
    return plan;
  }

  /// visit(view) of the plan without recomputation, every block's memory changed by change(b, it).
  template <typename Change, typename Visit>
  auto with_saved(const PlanDegrees& plan, EvaluationWorkspace& workspace, Change change,
                  Visit visit) const {
    const PlanDegrees all = keeping_all(plan);
    fill_memory(all, workspace);
    ClassProfile& profile = workspace.early.profile;
    thread_local std::vector<BlockMemory> kept;
    kept.clear();
    for (std::size_t b = 0; b < profile.blocks.size(); ++b) {
      kept.push_back(profile.blocks[b].memory);
      change(b, profile.blocks[b].memory);
    }
    const auto result = with_bound_view(profile, all, workspace, visit);
    for (std::size_t b = 0; b < kept.size(); ++b) profile.blocks[b].memory = kept[b];
    return result;
  }

  [[nodiscard]] std::shared_ptr<const ModuleChoices> choices(const PlanDegrees& plan,
                                                             EvaluationWorkspace& workspace) const {
    return profiles.module_choices(placement(plan, workspace).placed, plan.micro_batch);
  }

  /// Of a plan that is legal with other modules.
  [[nodiscard]] bool may_recompute(const PlanDegrees& plan) const {
    return std::none_of(on_modules.begin(), on_modules.end(), [&](const auto& condition) {
      return condition.obstacle(plan).has_value();
    });
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
      PlanDegrees ordered = transform.degrees;
      ordered.schedule = plan.order.schedule;
      held.push_back(profiles.profile(ordered, transform.mesh, transform.placements));
      ground.transforms.push_back({&transform.degrees, &transform.mesh, held.back().get(),
                                   statics(transform.degrees, transform.mesh),
                                   transform.placements.get()});
    }
    LinkedAssignment ways = routed(*problem.cluster, plan, &routes);
    add_way_back(problem, plan, ways);
    ground.routed = &ways;
    complete_kinds(context, ground);
    complete_messages(context, ground);
    return visit(PricingInput{context, ground, plan.order});
  }

  [[nodiscard]] Estimate evaluate(const PricingInput& view, MakespanMethod method,
                                  EvaluationWorkspace& workspace) const {
    Estimate estimate;
    const bool simulated = method == MakespanMethod::Simulation;
    const auto program = simulated ? listed_program(view, workspace) : std::nullopt;
    const StepResult result = step_time(view, method, workspace, program);
    estimate.step = result.step;
    estimate.imbalance = result.imbalance;
    estimate.busiest_stage = result.busiest;
    estimate.next_step_overlap = result.next_step_overlap;
    const DeviceMemory worst = program ? listed_device_memory(view, *program, workspace)
                                       : worst_device_memory(view, workspace);
    estimate.memory = worst.memory;
    for (const StageClassStates& kind : view.ground.kinds) {
      estimate.host_memory = std::max(estimate.host_memory, kind.offload.memory);
    }
    estimate.host_memory += (worst.on_host + worst.paged) *
                            std::min(problem.cluster->accelerators_per_node, problem.gpus);
    if (worst.paged > Bytes(0)) {  // out after an update, and back for the next one
      const Host& host = problem.cluster->host.value();
      estimate.step.optimizer += worst.paged / host.from_device + worst.paged / host.to_device;
    }
    estimate.worst_memory_stage = worst.device;
    const RelativeInterval interval = relative_interval(errors, estimate.step, problem.gpus);
    estimate.relative_p10 = interval.p10;
    estimate.relative_p90 = interval.p90;
    return estimate;
  }
};

}  // namespace plansearch
