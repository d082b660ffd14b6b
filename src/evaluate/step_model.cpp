// SPDX-License-Identifier: Apache-2.0
// Computes: time of one optimizer step, in the parts of the device that has most to do.
// Source: ends of the devices in the pipeline (schedule/), then each one's reductions, then the
//         optimizers: together after the slowest reduction where the framework needs a global
//         gradient norm, each by itself elsewhere.
// Assumes: reductions of a stage are one message.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/step_model_test.cpp, bound_test.cpp
#include "evaluate/step_model.hpp"

#include <algorithm>

namespace plansearch {
namespace {

void add_pass(GroupPass& sum, const GroupPass& pass) {
  sum.forward.add(pass.forward, 1.0);
  sum.backward.add(pass.backward, 1.0);
  sum.recompute.add(pass.recompute, 1.0);
  sum.forward_total += pass.forward_total;
  sum.backward_total += pass.backward_total;
  sum.weight_total += pass.weight_total;
}

Seconds busy(const GroupPass& pass) {
  return pass.forward_total + pass.backward_total + pass.weight_total;
}

/// Once per step, for every device of one kind.
struct StepWork {
  GroupPass pass;  ///< one micro-batch
  std::vector<PricedCommunication> collectives;
  Seconds reduction;
};

StepWork step_work(const PlanView& view, const EvaluationWorkspace& workspace, int position) {
  StepWork work{
      position_pass(view, workspace, position), step_collectives(view, workspace, position), {}};
  for (const PricedCommunication& c : work.collectives) work.reduction += c.exposed;
  return work;
}

/// When a device has nothing left to do for the pipeline, and how long it waited for messages.
struct DeviceEnd {
  Seconds end;
  Seconds transfers;
};

void simulated_ends(const PlanView& view, EvaluationWorkspace& workspace,
                    std::vector<DeviceEnd>& ends) {
  const PipelineResult& result = workspace.simulator.run(view.shape(), workspace.durations.view());
  for (std::size_t p = 0; p < ends.size(); ++p) {
    const DeviceUse& use = result.devices[p];
    ends[p] = {to_seconds(use.last_end), to_seconds(use.exposed_transfer)};
  }
}

/// After its last backward a device waits for nothing; what is left is the way of that gradient
/// to the first virtual stage.
void estimated_ends(const PlanView& view, const EvaluationWorkspace& workspace,
                    std::vector<DeviceEnd>& ends) {
  const PipelineShape shape = view.shape();
  const PipelineTimes times = workspace.durations.view();
  Ticks makespan = std::max(order_bound(shape, times), estimate_makespan(shape, times));
  for (DeviceEnd& end : ends) end = {to_seconds(makespan), {}};
  const auto& groups = view.assignment().groups;
  std::vector<bool> seen(ends.size(), false);
  for (std::size_t k = 0; k < groups.size(); ++k) {
    const auto position = static_cast<std::size_t>(groups[k].position);
    if (!seen[position]) ends[position].end = to_seconds(makespan);
    seen[position] = true;
    if (k + 1 < groups.size()) makespan -= times.backward[k] + times.gradient_transfer[k];
  }
}

void book(const PlanView& view, const PricedCommunication& c, StepTimeBreakdown& step) {
  step.exposed[static_cast<std::size_t>(purpose_of(c.communication))] += c.exposed;
  if (spans_nodes(*view.ground.transforms.front().mesh, c.communication.axes,
                  view.problem.cluster->accelerators_per_node)) {
    step.between_nodes += c.exposed;
  }
}

/// The parts of one device's step but the bubble.
StepTimeBreakdown parts_of(const PlanView& view, const StepWork& work, const KindStatics& statics,
                           Seconds transfers) {
  const auto repeats = static_cast<double>(view.order.micro_batches);
  const GroupPass& pass = work.pass;
  StepTimeBreakdown step;
  step.compute = repeats * (pass.forward.compute + pass.backward.compute);
  step.recompute = repeats * pass.recompute.compute;
  for (std::size_t i = 0; i < kPurposeCount; ++i) {
    step.exposed[i] =
        repeats * (pass.forward.exposed[i] + pass.backward.exposed[i] + pass.recompute.exposed[i]);
  }
  step.between_nodes = repeats * (pass.forward.between_nodes + pass.backward.between_nodes +
                                  pass.recompute.between_nodes);
  step.host = repeats * (busy(pass) - pass.forward.device() - pass.backward.device() -
                         pass.recompute.device());
  step.host = std::max(step.host, Seconds(0)) + statics.host;
  step.exposed[static_cast<std::size_t>(Purpose::Pipeline)] += transfers;
  if (std::any_of(view.ground.boundaries.begin(), view.ground.boundaries.end(),
                  [&](const BoundaryRoute& route) {
                    return route.left_domain >= view.problem.cluster->accelerators_per_node;
                  })) {
    step.between_nodes += transfers;
  }
  for (const PricedCommunication& c : work.collectives) book(view, c, step);
  step.optimizer = statics.optimizer;
  return step;
}

}  // namespace

GroupPass position_pass(const PlanView& view, const EvaluationWorkspace& workspace, int position) {
  GroupPass sum;
  for (const int content : view.contents_at(position)) {
    add_pass(sum, workspace.passes[static_cast<std::size_t>(content)]);
  }
  return sum;
}

Seconds step_time_bound(const PlanView& view, EvaluationWorkspace& workspace) {
  fill_passes(view, PassDetail::Lengths, workspace);
  fill_durations(view, workspace);
  const Seconds pipeline = to_seconds(order_bound(view.shape(), workspace.durations.view()));
  // Together: the slowest optimizer starts when the last device is through. Apart: the last device
  // through has an optimizer of its own, whichever that is.
  const bool together = view.problem.framework->optimizer_start == OptimizerStart::Together;
  Seconds after;
  bool first = true;
  for (const KindStatics& kind : view.ground.kinds) {
    const Seconds own = kind.optimizer + kind.host;
    after = first ? own : together ? std::max(after, own) : std::min(after, own);
    first = false;
  }
  return pipeline + after;
}

StepResult step_time(const PlanView& view, MakespanMethod method, EvaluationWorkspace& workspace) {
  fill_passes(view, PassDetail::Everything, workspace);
  fill_durations(view, workspace);
  const Assignment& assignment = view.assignment();
  const auto positions = static_cast<std::size_t>(assignment.stages());
  std::vector<DeviceEnd> ends(positions);
  method == MakespanMethod::Simulation ? simulated_ends(view, workspace, ends)
                                       : estimated_ends(view, workspace, ends);
  std::vector<StepWork> works;
  for (const int position : assignment.kinds) works.push_back(step_work(view, workspace, position));

  const bool together = view.problem.framework->optimizer_start == OptimizerStart::Together;
  const auto repeats = static_cast<double>(view.order.micro_batches);
  Seconds reduced;  // the last reduction ends
  Seconds after;    // the slowest optimizer takes
  Seconds total;    // the last device ends
  Seconds most;     // work of the busiest
  Seconds busy_sum;
  StepResult result;
  for (std::size_t p = 0; p < positions; ++p) {
    const auto kind = static_cast<std::size_t>(assignment.kind_of[p]);
    const KindStatics& statics = view.ground.kinds[kind];
    const Seconds own_after = statics.optimizer + statics.host;
    const Seconds own_reduced = ends[p].end + works[kind].reduction;
    reduced = std::max(reduced, own_reduced);
    after = std::max(after, own_after);
    total = std::max(total, own_reduced + own_after);
    const Seconds own =
        repeats * busy(works[kind].pass) + ends[p].transfers + works[kind].reduction + own_after;
    busy_sum += own;
    const auto best = static_cast<std::size_t>(result.busiest);
    if (own > most || (own == most && ends[p].end > ends[best].end)) {
      most = own;
      result.busiest = static_cast<int>(p);
    }
  }
  if (together) total = reduced + after;
  const auto busiest = static_cast<std::size_t>(result.busiest);
  const auto kind = static_cast<std::size_t>(assignment.kind_of[busiest]);
  result.step = parts_of(view, works[kind], view.ground.kinds[kind], ends[busiest].transfers);
  result.imbalance = most - busy_sum / static_cast<double>(positions);
  // Below a tick there is no bubble, only the rounding of the makespan to ticks.
  const Seconds bubble = total - result.step.total();
  result.step.bubble = bubble > to_seconds(view.order.micro_batches) ? bubble : Seconds(0);
  return result;
}

}  // namespace plansearch
