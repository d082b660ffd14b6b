// SPDX-License-Identifier: Apache-2.0
// Computes: time of one optimizer step on the device that finishes last, in parts.
// Source: pipeline makespan (schedule/), gradient reduction and parameter gather at the end of the
//         step hidden by the framework's share, optimizer traffic over memory bandwidth.
// Assumes: the first stage finishes last (its backward ends the pipeline); reductions of a stage
//          are one message.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/step_model_test.cpp, bound_test.cpp
#include "evaluate/step_model.hpp"

#include <algorithm>
#include <string_view>

#include "cost/collective_cost.hpp"
#include "cost/compute_cost.hpp"
#include "plan/pipeline_shape.hpp"

namespace plansearch {
namespace {

void add_lengths(StagePass& pass, const BlockProfile& block, double copies) {
  pass.forward_total += copies * block.forward_length;
  pass.backward_total += copies * block.backward_length;
}

void add_block(StagePass& pass, const BlockProfile& block, double copies, HostRunAhead ahead) {
  pass.forward.add(block.forward, copies);
  pass.backward.add(block.backward, copies);
  pass.recompute.add(block.recompute, copies);
  if (ahead == HostRunAhead::Stage) return;
  add_lengths(pass, block, copies);
}

StagePass stage_pass(const PlanView& view, const std::vector<double>& copies) {
  StagePass pass;
  const HostRunAhead ahead = view.constants.run_ahead;
  for (std::size_t b = 0; b < copies.size(); ++b) {
    if (copies[b] > 0.0) add_block(pass, view.profile.blocks[b], copies[b], ahead);
  }
  if (ahead == HostRunAhead::Stage) {
    pass.forward_total = pass.forward.length();
    pass.backward_total = joint_length(pass.backward, pass.recompute);
  }
  return pass;
}

/// Only how long passes take, which is all that a bound needs.
StagePass stage_lengths(const PlanView& view, const std::vector<double>& copies) {
  if (view.constants.run_ahead == HostRunAhead::Stage) return stage_pass(view, copies);
  StagePass pass;
  for (std::size_t b = 0; b < copies.size(); ++b) {
    if (copies[b] > 0.0) add_lengths(pass, view.profile.blocks[b], copies[b]);
  }
  return pass;
}

template <typename MakePass>
void fill_passes(const PlanView& view, EvaluationWorkspace& workspace, MakePass make) {
  workspace.passes.clear();
  for (const auto& copies : view.layout.contents) {
    StagePass& pass = workspace.passes.emplace_back(make(view, copies));
    pass.forward_ticks = to_ticks(pass.forward_total);
    pass.backward_ticks = to_ticks(pass.backward_total);
  }
}

PipelineShape shape_of(const PlanView& view) {
  return pipeline_shape(view.plan, *view.problem.framework);
}

void fill_durations(const PlanView& view, EvaluationWorkspace& workspace) {
  PipelineDurations& d = workspace.durations;
  const auto stages = static_cast<std::size_t>(view.layout.virtual_stages());
  d.forward.resize(stages);
  d.backward.resize(stages);
  d.weight_gradient.clear();
  const Ticks transfer = stages > 1 ? to_ticks(boundary_transfer(view).time) : 0;
  d.activation_transfer.assign(stages - 1, transfer);
  d.gradient_transfer.assign(stages - 1, transfer);
  for (std::size_t k = 0; k < stages; ++k) {
    const StagePass& pass = workspace.passes[static_cast<std::size_t>(view.layout.content_of[k])];
    d.forward[k] = pass.forward_ticks;
    d.backward[k] = pass.backward_ticks;
  }
}

double optimizer_traffic(const PlanView& view, int device) {
  const ParameterCount count = device_parameters(view, device);
  return count.trainable_dense * view.statics.dense.optimizer_traffic +
         count.trainable_expert * view.statics.expert.optimizer_traffic;
}

Seconds optimizer_time(const PlanView& view) {
  const double first = optimizer_traffic(view, 0);
  const double last =
      view.layout.stages > 1 ? optimizer_traffic(view, view.layout.stages - 1) : first;
  return stream_time(view.problem.cluster->accelerator,
                     Bytes(std::max(first, last) * view.constants.optimizer_factor), 1);
}

/// Work of the device whose backward ends the pipeline, per step.
void add_work(const PlanView& view, const EvaluationWorkspace& workspace, StepTimeBreakdown& step) {
  const auto repeats = static_cast<double>(view.plan.micro_batches);
  for_each_chunk(view.layout, 0, [&](std::size_t content) {
    const StagePass& pass = workspace.passes[content];
    step.compute += repeats * (pass.forward.compute + pass.backward.compute);
    step.recompute += repeats * pass.recompute.compute;
    step.between_nodes += repeats * (pass.forward.between_nodes + pass.backward.between_nodes +
                                     pass.recompute.between_nodes);
    for (std::size_t i = 0; i < kPurposeCount; ++i) {
      step.exposed[i] += repeats * (pass.forward.exposed[i] + pass.backward.exposed[i] +
                                    pass.recompute.exposed[i]);
    }
    step.host += repeats * (pass.forward_total + pass.backward_total - pass.forward.device() -
                            pass.backward.device() - pass.recompute.device());
  });
}

/// Per-step work of the processor: a constant, and a share for every sharded parameter tensor.
Seconds host_time(const PlanView& view) {
  const Network& network = *view.problem.network;
  double tensors = 0.0;
  for (const BlockRun& run : network.order) {
    const double own = view.problem.cluster->software.flat_parameters.value_or(false)
                           ? 1.0
                           : static_cast<double>(network.blocks[run.block].parameters.size());
    tensors += own * static_cast<double>(run.count);
  }
  return view.constants.host_step + view.constants.host_parameter * (tensors / view.layout.stages);
}

}  // namespace

ParameterCount device_parameters(const PlanView& view, int device) {
  ParameterCount total;
  FixedVector<std::string_view, 16> seen;
  // Neighbouring chunks are mostly alike: what they own is summed once.
  std::size_t known = view.layout.contents.size();
  ParameterCount own;
  for_each_chunk(view.layout, device, [&](std::size_t content) {
    if (content == known) {
      total += own;
      return;
    }
    known = content;
    own = {};
    const auto& copies = view.layout.contents[content];
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (copies[b] <= 0.0) continue;
      const BlockProfile& block = view.profile.blocks[b];
      own += block.parameters * copies[b];
      for (const SharedCount& shared : block.shared) {
        if (std::find(seen.begin(), seen.end(), shared.key) != seen.end()) continue;
        seen.push_back(shared.key);
        total += shared.count;
      }
    }
    total += own;
  });
  return total;
}

BoundaryTransfer boundary_transfer(const PlanView& view) {
  Bytes whole;
  for (const BlockProfile& block : view.profile.blocks)
    whole = std::max(whole, block.memory.boundary);
  const Cluster& cluster = *view.problem.cluster;
  const ProcessGroup neighbours{2, view.mesh.neighbour_distance(Axis::Pipeline)};
  const ProcessGroup tensor = process_group(view.mesh, {Axis::Out});
  const bool scatters = view.constants.boundary == BoundaryMessage::ScatterGather &&
                        view.plan.sequence_parallel == SequenceParallel::Off && tensor.size() > 1;
  BoundaryTransfer transfer;
  transfer.bytes = scatters ? whole / static_cast<double>(tensor.size()) : whole;
  transfer.time = collective_cost(cluster, CommunicationKind::SendReceive, transfer.bytes,
                                  neighbours, Setting::InStep)
                      .time +
                  view.constants.collective_call;
  if (scatters) {
    transfer.time +=
        collective_cost(cluster, CommunicationKind::AllGather, whole, tensor, Setting::InStep).time;
  }
  return transfer;
}

Seconds step_time_bound(const PlanView& view, EvaluationWorkspace& workspace) {
  fill_passes(view, workspace, stage_lengths);
  fill_durations(view, workspace);
  return to_seconds(order_bound(shape_of(view), workspace.durations.view())) +
         optimizer_time(view) + host_time(view);
}

StepTimeBreakdown step_time(const PlanView& view, MakespanMethod method,
                            EvaluationWorkspace& workspace) {
  fill_passes(view, workspace, stage_pass);
  fill_durations(view, workspace);
  const PipelineShape shape = shape_of(view);
  const PipelineTimes times = workspace.durations.view();
  StepTimeBreakdown step;
  add_work(view, workspace, step);
  const Seconds work = step.total();
  Seconds makespan;
  Seconds transfers;
  if (method == MakespanMethod::Simulation) {
    const PipelineResult& result = workspace.simulator.run(shape, times);
    makespan = to_seconds(result.makespan);
    transfers = to_seconds(result.devices.front().exposed_transfer);
  } else {
    const Ticks bound = order_bound(shape, times);
    makespan = to_seconds(std::max(bound, estimate_makespan(shape, times)));
  }
  step.exposed[static_cast<std::size_t>(Purpose::Pipeline)] += transfers;
  if (spans_nodes(view.mesh, {Axis::Pipeline}, view.problem.cluster->accelerators_per_node)) {
    step.between_nodes += transfers;
  }
  // Below a tick there is no bubble, only the rounding of the makespan to ticks.
  const Seconds bubble = makespan - work - transfers;
  step.bubble = bubble > to_seconds(view.plan.micro_batches) ? bubble : Seconds(0);
  for (const PricedCommunication& collective : step_collectives(view, workspace)) {
    const Communication& c = collective.communication;
    step.exposed[static_cast<std::size_t>(purpose_of(c))] += collective.exposed;
    if (spans_nodes(view.mesh, c.axes, view.problem.cluster->accelerators_per_node)) {
      step.between_nodes += collective.exposed;
    }
  }
  step.optimizer = optimizer_time(view);
  step.host += host_time(view);
  return step;
}

}  // namespace plansearch
