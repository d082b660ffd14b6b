// SPDX-License-Identifier: Apache-2.0
// Computes: forward and backward of one micro-batch through a group of blocks, and the messages
//           between groups.
// Source: sums over block profiles; a host that runs ahead of a block or of a whole stage
//         (framework data); what leaves a group is what its last block hands on and what edges
//         take.
// Assumes: nothing of one micro-batch hides behind another's but what the pipeline order shows;
//          a message along an edge is waited for where it arrives, after that of the neighbour;
//          recomputed and kept copies of one block are two runs of copies; a forward and a backward
//          that an order joins run side by side, block by block, where the framework overlaps them
//          (both of equal blocks), else one after the other (pytorch/pytorch@00722e64 schedules.py:
//          _PipelineScheduleRuntime._step_microbatches, where no function is registered for them).
// Units: seconds, bytes, ticks.
// Checked by: tests/unit/evaluate/step_model_test.cpp, boundary_test.cpp
#include "evaluate/step/group_pass.hpp"

#include <algorithm>

#include "plan/stages/pipeline_shape.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// A host that runs ahead of a block waits for it by itself.
PhaseLengths sum_of_lengths(const PricingInput& view, const GroupContent& content, bool split) {
  PhaseLengths sum;
  for_each_block(view, content, [&](const BlockProfile& block, double copies) {
    sum.forward += view.forwards() * (copies * block.forward_length) +
                   view.forwards() * block.forward_edges.device();
    sum.backward += copies * (split ? block.input_length : block.backward_length) +
                    block.backward_edges.device();
    if (split) sum.weight += copies * block.weight_length;
    sum.joined_forward += copies * block.joined_length + block.joined_edges;
  });
  return sum;
}

/// `split`: the two gradients as well.
GroupPass pass_of(const PricingInput& view, const GroupContent& content, bool split) {
  GroupPass pass;
  for_each_block(view, content, [&](const BlockProfile& block, double copies) {
    pass.forward.add(block.forward, copies * view.forwards());
    pass.forward.add(block.forward_edges, view.forwards());
    pass.backward.add(block.backward, copies);
    pass.backward.add(block.backward_edges, 1.0);
    pass.recompute.add(block.recompute, copies);
    pass.joined += copies * block.joined_length + block.joined_edges;
    if (!split) return;
    pass.weight_gradient.add(block.weight_gradient, copies);
    pass.input_gradient.add(block.input_gradient, copies);
    pass.input_gradient.add(block.backward_edges, 1.0);
  });
  return pass;
}

/// A host that runs ahead of a stage evens out over all its blocks.
PhaseLengths length_of_sum(const PricingInput& view, const GroupContent& content, bool split) {
  const GroupPass pass = pass_of(view, content, split);
  const Seconds forward = pass.forward.length();
  if (!split) return {forward, joint_length(pass.backward, pass.recompute), {}, pass.joined};
  return {forward, joint_length(pass.input_gradient, pass.recompute), pass.weight_gradient.length(),
          pass.joined};
}

/// The tile from a pass to the next one of its micro-batch: its last block with results makes it.
Bytes tile_back(const PricingInput& view, const GroupContent& content) {
  const auto& blocks = view.transform_of(content).profile->blocks;
  const auto returning = returning_block(*view.problem.network);
  return returning ? blocks[*returning].memory.boundary : Bytes(0);
}

/// The tile from a group to the next one: along the chain, and relayed along edges.
Bytes tile_of(const PricingInput& view, const GroupContent& content) {
  const TransformInvariants& transform = view.transform_of(content);
  Bytes tile = transform.profile->blocks[content.last_block].memory.boundary;
  for (const BlockPort& leaving : content.edges.leaving) tile += transform.port(leaving).tile;
  return tile;
}

ProcessGroup pair_over(int left_domain) {
  return {2, std::max(left_domain, 1)};
}

/// Two groups, the path from one to the other, and the tiles that take it.
struct GroupPair {
  const GroupContent& sender;
  const GroupContent& receiver;
  const StageLink& route;
  Bytes tile;
};

BoundaryTransfers transfers_of(const PricingInput& view, const GroupPair& pair) {
  const auto& [sender, receiver, route, tile] = pair;
  const TransformInvariants& transform = view.transform_of(sender);
  const TransformInvariants& next = view.transform_of(receiver);
  const bool alike = pair_up(*transform.mesh, *transform.degrees, *next.mesh, *next.degrees);
  const ProcessGroup tensor = process_group(*transform.mesh, {Axis::Out});
  const bool cut = transform.placements != nullptr &&
                   transform.placements->blocks[sender.last_block].leaving.has_value();
  const bool scatters = alike && !cut && view.constants.boundary_scatter_gather &&
                        transform.degrees->sequence_parallel == SequenceParallel::Off &&
                        tensor.size() > 1;
  const auto add_gather = [&](const RouteGather& gather, BoundaryTransfer& result) {
    if (!scatters && gather.ranks <= 1) return;
    result.gathered = scatters ? pair.tile : pair.tile * gather.tiles;
    result.gathered_over = scatters ? tensor : ProcessGroup(gather.ranks, 1);
    result.gathering =
        price_call(view, CommunicationKind::AllGather, result.gathered, result.gathered_over)
            .cost.time;
  };
  const auto transfer = [&](double share, const RouteGather& gather) {
    BoundaryTransfer result;
    if (share == 0.0) return result;  // it is there already
    result.bytes = pair.tile * share / (scatters ? static_cast<double>(tensor.size()) : 1.0);
    const CallPrice call = price_call(view, CommunicationKind::SendReceive, result.bytes,
                                      pair_over(pair.route.left_domain));
    add_gather(gather, result);
    result.time = call.cost.time + view.constants.collective_call + result.gathering;
    return result;
  };
  BoundaryTransfers transfers;
  transfers.activation = transfer(route.forward, route.forward_gather);
  const bool same =
      route.backward == route.forward && route.backward_gather == route.forward_gather;
  transfers.gradient =
      same ? transfers.activation : transfer(route.backward, route.backward_gather);
  return transfers;
}

void add(BoundaryTransfer& sum, const BoundaryTransfer& transfer) {
  sum.bytes += transfer.bytes;
  sum.time += transfer.time;
}

}  // namespace

void fill_passes(const PricingInput& view, EvaluationWorkspace& workspace) {
  const bool split = splits_backward(view.order.schedule);
  const bool joins = view.joins();
  const bool by_block = !view.constants.host_runs_ahead_of_stage;
  const double forwards = view.forwards() == 1.0 ? 1.0 : static_cast<double>(view.shape().forwards);
  workspace.passes.clear();
  for (const GroupContent& content : view.assignment().contents) {
    PhaseLengths lengths =
        by_block ? sum_of_lengths(view, content, split) : length_of_sum(view, content, split);
    // The joined time holds the backward as well. Side by side no pass is shorter than by itself.
    const Seconds beside = lengths.joined_forward - lengths.backward - lengths.weight;
    lengths.joined_forward = joins ? std::clamp(beside, Seconds(0), lengths.forward) : Seconds(0);
    workspace.passes.push_back({lengths, to_ticks(lengths.forward / forwards),
                                to_ticks(lengths.backward), to_ticks(lengths.weight),
                                to_ticks(lengths.joined_forward)});
  }
}

PhaseLengths position_lengths(const PricingInput& view, const EvaluationWorkspace& workspace,
                              int position) {
  PhaseLengths sum;
  for (const int content : view.contents_at(position)) {
    const PhaseLengths& lengths = workspace.passes[static_cast<std::size_t>(content)];
    sum.forward += lengths.forward;
    sum.backward += lengths.backward;
    sum.weight += lengths.weight;
    sum.joined_forward += lengths.joined_forward;
  }
  return sum;
}

GroupPass position_pass(const PricingInput& view, int position) {
  GroupPass sum;
  for (const int content : view.contents_at(position)) {
    const GroupPass pass = pass_of(view, view.content(content), false);
    sum.forward.add(pass.forward, 1.0);
    sum.backward.add(pass.backward, 1.0);
    sum.recompute.add(pass.recompute, 1.0);
  }
  return sum;
}

void fill_durations(const PricingInput& view, EvaluationWorkspace& workspace) {
  fill_passes(view, workspace);
  PipelineDurations& d = workspace.durations;
  const std::size_t stops = view.assignment().stop_count();
  const bool split = splits_backward(view.order.schedule);
  const bool joins = view.joins();
  d.forward.resize(stops);
  d.backward.resize(stops);
  d.weight_gradient.resize(split ? stops : 0);
  d.overlapped_forward.resize(joins ? stops : 0);
  const std::size_t boundaries = view.invariants.routed->kind_of_boundary.size();
  d.activation_transfer.resize(boundaries);
  d.gradient_transfer.resize(boundaries);
  for (std::size_t k = 0; k < stops; ++k) {
    const int content = view.assignment().content_at(k);
    const GroupLengths& pass = workspace.passes[static_cast<std::size_t>(content)];
    d.forward[k] = pass.forward_ticks;
    d.backward[k] = pass.backward_ticks;
    if (split) d.weight_gradient[k] = pass.weight_ticks;
    if (joins) d.overlapped_forward[k] = pass.joined_ticks;
  }
  const LinkedAssignment& routed = *view.invariants.routed;
  workspace.transfers.clear();
  for (const std::size_t boundary : routed.boundary_kinds) {
    const BoundaryTransfers transfers = boundary_transfers(view, boundary);
    workspace.transfers.push_back(
        {to_ticks(transfers.activation.time), to_ticks(transfers.gradient.time)});
  }
  for (std::size_t k = 0; k < boundaries; ++k) {
    const TransferTicks& transfer = workspace.transfers[routed.kind_of_boundary[k]];
    d.activation_transfer[k] = transfer.activation;
    d.gradient_transfer[k] = transfer.gradient;
  }
}

BoundaryTransfers chain_transfers(const PricingInput& view, std::size_t boundary) {
  const StageLink& route = view.boundary(boundary);
  if (route.forward == 0.0 && route.backward == 0.0) return {};
  const Assignment& held = view.assignment();
  const GroupContent& sender = view.content(held.content_at(boundary));
  const bool back = boundary + 1 == held.stop_count();
  const GroupContent& receiver = view.content(held.content_at(back ? 0 : boundary + 1));
  const Bytes tile = back ? tile_back(view, sender) : tile_of(view, sender);
  BoundaryTransfers transfers = transfers_of(view, {sender, receiver, route, tile});
  if (back) transfers.gradient = {};
  return transfers;
}

BoundaryTransfers direct_transfers(const PricingInput& view, std::size_t message) {
  const DirectMessage& direct = view.assignment().direct[message];
  const StageLink& route = view.invariants.routed->direct[message];
  if (route.forward == 0.0 && route.backward == 0.0) return {};
  const GroupContent& sender = view.content(view.assignment().content_at(direct.from));
  const GroupContent& receiver = view.content(view.assignment().content_at(direct.to));
  return transfers_of(
      view, {sender, receiver, route, view.transform_of(sender).port(direct.tensor).tile});
}

BoundaryTransfers boundary_transfers(const PricingInput& view, std::size_t boundary) {
  BoundaryTransfers sum = chain_transfers(view, boundary);
  const auto& direct = view.assignment().direct;
  for (std::size_t i = 0; i < direct.size(); ++i) {
    if (direct[i].to == boundary + 1) add(sum.activation, direct_transfers(view, i).activation);
    if (direct[i].from == boundary) add(sum.gradient, direct_transfers(view, i).gradient);
  }
  return sum;
}

bool PricingInput::joins() const {
  return joins_passes(*problem.framework, *problem.network, order.schedule);
}

OptimizerStart PricingInput::optimizer_start() const {
  return plansearch::optimizer_start(*problem.framework, order.schedule);
}

PipelineShape PricingInput::shape() const {
  return pipeline_shape(*invariants.transforms.front().degrees, *problem.framework,
                        *problem.network);
}

}  // namespace plansearch
