// SPDX-License-Identifier: Apache-2.0
// Computes: times and memory of one stage, and of the messages between two.
// Source: plan_invariants, group_pass, step_collectives and memory_model, asked about a plan of one
//         position (two for a message).
// Assumes: the stage lies on consecutive ranks that do not straddle a node they could fit into.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/stage_price_test.cpp (equal to the stages of whole plans)
#include "evaluate/step/stage_price.hpp"

#include <algorithm>
#include <utility>

#include "evaluate/memory/memory_model.hpp"
#include "evaluate/states/host_update.hpp"
#include "evaluate/step/group_pass.hpp"
#include "evaluate/step/plan_invariants.hpp"
#include "evaluate/step/step_collectives.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// A plan's assignment for one position, or two that follow each other.
std::shared_ptr<const Assignment> assignment_of(std::vector<DevicePosition> positions,
                                                const PlacedRuns& runs, const Problem& problem) {
  auto assignment = std::make_shared<Assignment>();
  assignment->positions = std::move(positions);
  assignment->skips = problem.framework->skips;
  for (int p = 0; p < assignment->stages(); ++p) assignment->groups.push_back({p, 0, runs.blocks});
  index_contents(*assignment, *problem.network, runs.first);
  assignment->direct.clear();  // where other stages lie is not known
  return assignment;
}

TransformInvariants invariants_of(const StageConfig& form, const PlanDegrees& degrees) {
  return {&degrees, &form.mesh, form.profile.get(), form.statics};
}

}  // namespace

StageConfig StagePricer::form(const PlanDegrees& degrees) const {
  PLANSEARCH_CHECK(!splits_backward(degrees.schedule));
  StageConfig form;
  form.degrees = degrees;
  PlanDegrees alone = degrees;
  alone.pipeline = 1;
  const Problem& problem = views_.problem;
  Transform placed = make_transform(alone, make_device_mesh(alone, problem.framework->rank_order),
                                    *problem.network);
  form.mesh = std::move(placed.mesh);
  form.mesh.ranks = problem.gpus;
  form.profile = views_.profiles->profile(degrees, form.mesh, placed.placements);
  form.statics = views_.statics(degrees, form.mesh);
  return form;
}

StagePrice StagePricer::price(const StageConfig& form, const PlacedRuns& blocks) const {
  thread_local EvaluationWorkspace workspace;
  // One stage keeps one micro-batch in flight.
  PlanDegrees alone = form.degrees;
  alone.pipeline = 1;
  alone.schedule = kDefaultSchedule;
  const LinkedAssignment routed{assignment_of({{0, 0}}, blocks, views_.problem), {}, {}, {}};
  PlanInvariants invariants;
  invariants.transforms.push_back(invariants_of(form, alone));
  invariants.routed = &routed;
  complete_kinds(views_.context, invariants);
  complete_messages(views_.context, invariants);
  const PricingInput view{views_.context, invariants, Order{alone.schedule, alone.micro_batches}};
  fill_passes(view, workspace);
  const PhaseLengths pass = position_lengths(view, workspace, 0);
  const DeviceMemory memory = device_memory(view, 0, workspace);
  StagePrice price;
  price.forward = pass.forward;
  price.backward = pass.backward;
  for_each_step_message(view, pass, 0,
                        [&](const PhaseMessage&, Seconds exposed) { price.reduction += exposed; });
  const StageClassStates& statics = invariants.kinds.front();
  price.after = statics.optimizer + exposed_copies(view, statics.offload, pass) + statics.host;
  price.activations = memory.memory.activations;
  price.fixed = memory.memory.total() - memory.memory.activations;
  return price;
}

StageTransfer StagePricer::transfer(const StageConfig& from, const StageConfig& to,
                                    const PlacedRuns& last, const std::array<int, 2>& first) const {
  ParallelPlan plan;
  plan.transforms = {{from.degrees, from.mesh}, {to.degrees, to.mesh}};
  const int second = plan.transforms.front() == plan.transforms.back() ? 0 : 1;
  plan.assignment = assignment_of({{0, first[0]}, {second, first[1]}}, last, views_.problem);
  const LinkedAssignment linked = routed(*views_.problem.cluster, plan);
  PlanInvariants invariants;
  invariants.transforms = {invariants_of(from, from.degrees), invariants_of(to, to.degrees)};
  invariants.routed = &linked;
  const PricingInput view{views_.context, invariants,
                          Order{from.degrees.schedule, from.degrees.micro_batches}};
  const BoundaryTransfers transfers = boundary_transfers(view, 0);
  return {transfers.activation.time, transfers.gradient.time};
}

std::vector<Seconds> StagePricer::shared_reductions(const std::vector<PlacedStage>& stages) const {
  auto assignment = std::make_shared<Assignment>();
  PlanInvariants invariants;
  for (const PlacedStage& stage : stages) {
    const int number = assignment->stages();
    assignment->positions.push_back({number, stage.first_rank});
    assignment->groups.push_back({number, 0, stage.blocks->blocks});
    invariants.transforms.push_back(invariants_of(*stage.form, stage.form->degrees));
  }
  index_contents(*assignment, *views_.problem.network);
  const LinkedAssignment linked{assignment, {}, {}, {}};
  invariants.routed = &linked;
  const PricingInput view{views_.context, invariants, {}};
  add_shared_messages(view, invariants);
  std::vector<Seconds> reductions(stages.size());
  for (int p = 0; p < assignment->stages(); ++p) {
    for (const PhaseMessage& message :
         invariants.messages[static_cast<std::size_t>(view.kind_of(p))].last) {
      reductions[static_cast<std::size_t>(p)] += message.time;
    }
  }
  return reductions;
}

bool StagePricer::shares(const StageConfig& form, const std::vector<BlockRun>& blocks) const {
  return std::any_of(blocks.begin(), blocks.end(), [&](const BlockRun& run) {
    return !form.profile->blocks[run.block].shared.empty();
  });
}

}  // namespace plansearch
