// SPDX-License-Identifier: Apache-2.0
// Computes: forward and backward of one micro-batch through a group of blocks, and the messages
//           between groups.
// Source: sums over block profiles; a host that runs ahead of a block or of a whole stage
//         (framework data); what leaves a group is what its last block hands on.
// Assumes: nothing of one micro-batch hides behind another's but what the pipeline order shows.
// Units: seconds, bytes, ticks.
// Checked by: tests/unit/evaluate/step_model_test.cpp, boundary_test.cpp
#include "evaluate/group_pass.hpp"

#include <algorithm>

#include "cost/collective_cost.hpp"
#include "plan/pipeline_shape.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

void add_lengths(GroupPass& pass, const BlockProfile& block, double copies, bool split) {
  pass.forward_total += copies * block.forward_length;
  pass.backward_total += copies * (split ? block.input_length : block.backward_length);
  if (split) pass.weight_total += copies * block.weight_length;
}

/// The whole pass; a host that runs ahead of a stage evens out over all its blocks.
GroupPass whole_pass(const PlanView& view, const GroupContent& content, bool split) {
  GroupPass pass;
  const bool per_block = view.constants.run_ahead == HostRunAhead::Block;
  PassProfile weights;
  for_each_block(view, content, [&](const BlockProfile& block, double copies) {
    pass.forward.add(block.forward, copies);
    pass.backward.add(block.backward, copies);
    pass.recompute.add(block.recompute, copies);
    weights.add(block.weight_gradient, copies);
    if (per_block) add_lengths(pass, block, copies, split);
  });
  if (per_block) return pass;
  pass.forward_total = pass.forward.length();
  if (!split) {
    pass.backward_total = joint_length(pass.backward, pass.recompute);
    return pass;
  }
  PassProfile inputs = pass.backward;
  inputs.add(weights, -1.0);
  pass.backward_total = joint_length(inputs, pass.recompute);
  pass.weight_total = weights.length();
  return pass;
}

GroupPass lengths_only(const PlanView& view, const GroupContent& content, bool split) {
  if (view.constants.run_ahead == HostRunAhead::Stage) return whole_pass(view, content, split);
  GroupPass pass;
  for_each_block(view, content, [&](const BlockProfile& block, double copies) {
    add_lengths(pass, block, copies, split);
  });
  return pass;
}

Bytes tile_of(const PlanView& view, const GroupContent& content) {
  return view.transform_of(content).profile->blocks[content.last_block].memory.boundary;
}

bool same_message(const PlanView& view, const GroupContent& a, const GroupContent& b) {
  return a.transform == b.transform && tile_of(view, a) == tile_of(view, b);
}

ProcessGroup pair_over(int left_domain) {
  return {2, std::max(left_domain, 1)};
}

}  // namespace

void fill_passes(const PlanView& view, PassDetail detail, EvaluationWorkspace& workspace) {
  const bool split = splits_backward(view.order.schedule);
  workspace.passes.clear();
  for (const GroupContent& content : view.assignment().contents) {
    GroupPass& pass = workspace.passes.emplace_back(detail == PassDetail::Lengths
                                                        ? lengths_only(view, content, split)
                                                        : whole_pass(view, content, split));
    pass.forward_ticks = to_ticks(pass.forward_total);
    pass.backward_ticks = to_ticks(pass.backward_total);
    pass.weight_ticks = to_ticks(pass.weight_total);
  }
}

void fill_durations(const PlanView& view, EvaluationWorkspace& workspace) {
  PipelineDurations& d = workspace.durations;
  const auto& groups = view.assignment().groups;
  const bool split = splits_backward(view.order.schedule);
  d.forward.resize(groups.size());
  d.backward.resize(groups.size());
  d.weight_gradient.resize(split ? groups.size() : 0);
  d.activation_transfer.resize(groups.size() - 1);
  d.gradient_transfer.resize(groups.size() - 1);
  for (std::size_t k = 0; k < groups.size(); ++k) {
    const GroupPass& pass = workspace.passes[static_cast<std::size_t>(groups[k].content)];
    d.forward[k] = pass.forward_ticks;
    d.backward[k] = pass.backward_ticks;
    if (split) d.weight_gradient[k] = pass.weight_ticks;
  }
  // Most boundaries are like the one before.
  BoundaryTransfers last;
  const GroupContent* sender = nullptr;
  for (std::size_t k = 0; k + 1 < groups.size(); ++k) {
    const GroupContent& content = view.content(groups[k].content);
    const bool alike = sender != nullptr && same_message(view, *sender, content) &&
                       view.ground.boundaries[k] == view.ground.boundaries[k - 1];
    if (!alike) last = boundary_transfers(view, k);
    sender = &content;
    d.activation_transfer[k] = to_ticks(last.activation.time);
    d.gradient_transfer[k] = to_ticks(last.gradient.time);
  }
}

BoundaryTransfers boundary_transfers(const PlanView& view, std::size_t boundary) {
  const BoundaryRoute& route = view.ground.boundaries[boundary];
  if (route.forward == 0.0) return {};
  const GroupContent& sender = view.content(view.assignment().groups[boundary].content);
  const TransformGround& transform = view.transform_of(sender);
  const Bytes tile = tile_of(view, sender);
  const ProcessGroup tensor = process_group(*transform.mesh, {Axis::Out});
  const bool scatters = view.constants.boundary == BoundaryMessage::ScatterGather &&
                        transform.degrees->sequence_parallel == SequenceParallel::Off &&
                        tensor.size() > 1;
  const Cluster& cluster = *view.problem.cluster;
  const Seconds gather = scatters ? collective_cost(cluster, CommunicationKind::AllGather, tile,
                                                    tensor, Contention::TrainingStep)
                                        .time
                                  : Seconds(0);
  const auto transfer = [&](double share) {
    BoundaryTransfer result;
    result.bytes = tile * share / (scatters ? static_cast<double>(tensor.size()) : 1.0);
    result.time = collective_cost(cluster, CommunicationKind::SendReceive, result.bytes,
                                  pair_over(route.left_domain), Contention::TrainingStep)
                      .time +
                  view.constants.collective_call + gather;
    return result;
  };
  BoundaryTransfers transfers;
  transfers.activation = transfer(route.forward);
  transfers.gradient =
      route.backward == route.forward ? transfers.activation : transfer(route.backward);
  return transfers;
}

PipelineShape PlanView::shape() const {
  return pipeline_shape(*ground.transforms.front().degrees, *problem.framework);
}

}  // namespace plansearch
