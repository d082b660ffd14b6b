// SPDX-License-Identifier: Apache-2.0
#include "evaluate/step/plan_views.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/checked.hpp"
#include "evaluate/memory/memory_model.hpp"
#include "evaluate/step/priced_program.hpp"
#include "evaluate/step/step_collectives.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Whether two plans agree on everything that all plans of a class have in common.
bool same_class(const PlanDegrees& a, const PlanDegrees& b) {
  const auto shared = [](const PlanDegrees& p) {
    return std::tuple(p.tensor_in, p.tensor_out, p.tensor_depth, p.context, p.context_kind,
                      p.expert, p.expert_tensor, p.sequence_parallel, p.temporal, p.micro_batch,
                      p.pieces, p.recompute, p.recompute_layers > 0, p.modules, p.dispatcher,
                      p.on_host);
  };
  return shared(a) == shared(b);
}

/// The fields that invariants of one form do not depend on, set to one value.
PlanDegrees invariant_degrees(PlanDegrees plan) {
  plan.micro_batch = plan.micro_batches = 1;
  plan.schedule = kDefaultSchedule;
  plan.recompute = Recompute::None;
  plan.recompute_layers = 0;
  plan.modules = 0;
  plan.dispatcher = kOwnDispatcher;
  return plan;
}

}  // namespace

PlanViews::PlanViews(const Problem& asked, std::shared_ptr<const ProfileMaker> shared)
    : problem(asked),
      context(pricing_context(problem)),
      errors(error_model(problem)),
      fitting_share(share_at_risk(context.constants.memory_error, problem.memory_risk)),
      tight_share(share_at_risk(context.constants.memory_error,
                                std::max(problem.memory_risk, kTightMemoryRisk))),
      grid(context),
      assignments(problem),
      profiles(shared ? std::move(shared) : std::make_shared<const ProfileMaker>(asked)) {
  for (LegalityCondition& condition :
       legality_conditions(*problem.network, *problem.framework, problem.gpus, problem.precision)) {
    if (!condition.reads.contains(Degree::RecomputeModules)) continue;
    on_modules.push_back(std::move(condition));
  }
  if (!runs_steps(problem.framework->operator_steps, OperatorSteps::Rings)) return;
  for (const int ranks : divisors(problem.gpus)) {
    rings.emplace(ranks, ring_placements(*problem.network, ranks));
  }
}

const std::shared_ptr<const Placements>& PlanViews::placements(const PlanDegrees& plan) const {
  static const std::shared_ptr<const Placements> kNothing;
  return plan.temporal == Temporal::None ? kNothing : rings.at(plan.tensor_out);
}

std::shared_ptr<const ListedStep> PlanViews::listed(const PlanDegrees& plan,
                                                    const PricingInput& view,
                                                    EvaluationWorkspace& workspace) const {
  if (!is_listed(problem)) return nullptr;
  {
    const std::scoped_lock lock(listing_);
    const auto known = listed_.find(plan);
    if (known != listed_.end()) return known->second;
  }
  auto made = listed_step(view, workspace);
  const std::scoped_lock lock(listing_);
  return listed_.emplace(plan, std::move(made)).first->second;
}

DeviceMesh PlanViews::mesh(const PlanDegrees& plan) const {
  DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
  const auto& placed = placements(plan);
  return placed ? with_factors(std::move(mesh), placed->factors) : mesh;
}

ModelStatePolicy PlanViews::statics(const PlanDegrees& plan, const DeviceMesh& mesh) const {
  return static_policy(tensor_policies(plan, mesh, *problem.framework, problem.precision), mesh,
                       optimizer_moments(problem.model->training.optimizer));
}

PlanInvariants& PlanViews::invariants(const ClassProfile& profile, const PlanDegrees& plan,
                                      EvaluationWorkspace& workspace) const {
  // A profile of another class would give a price without a meaning.
  PLANSEARCH_CHECK(same_class(profile.made_for, plan));
  const PlanDegrees degrees = invariant_degrees(plan);
  PlanInvariants& known =
      workspace.known_invariants[{plan.chunks, schedule_row(plan.schedule).placement}];
  if (known.context != context.id || known.degrees != degrees) {
    known.mesh = mesh(plan);
    known.transforms.assign(
        1, {&plan, &known.mesh, &profile, statics(plan, known.mesh), placements(plan).get()});
    known.routed = &assignments.get(plan, known.mesh);
    complete_kinds(context, known);
    known.messages_known = false;
    known.degrees = degrees;
    known.context = context.id;
  }
  known.transforms.front().degrees = &plan;
  known.transforms.front().profile = &profile;
  return known;
}

void PlanViews::complete(PlanInvariants& known) const {
  complete_messages(context, known);
}

PlanViews::OwnInvariants::OwnInvariants(const PlanViews& views, const ParallelPlan& plan) {
  for (const Transform& transform : plan.transforms) {
    PlanDegrees ordered = transform.degrees;
    ordered.schedule = plan.order.schedule;
    held.push_back(views.profiles->profile(ordered, transform.mesh, transform.placements));
    invariants.transforms.push_back({&transform.degrees, &transform.mesh, held.back().get(),
                                     views.statics(transform.degrees, transform.mesh),
                                     transform.placements.get()});
  }
  linked = routed(*views.problem.cluster, plan);
  add_return_boundary(views.problem, plan, linked);
  invariants.routed = &linked;
  complete_kinds(views.context, invariants);
  complete_messages(views.context, invariants);
}

}  // namespace plansearch
