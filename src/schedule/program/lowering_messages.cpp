// SPDX-License-Identifier: Apache-2.0
// Computes:   the places of pieces and the paths of their results; channels between devices, sends
//             and receives of every message; allocations and frees around the pieces.
// Source:     the template of the order; alpa-projects/alpa@b8078a9f runtime_emitter.py
//             (just-in-time and overlapped lists); PipelineBytes.
// Assumes:    as lowering.cpp; neighbours on one device hand over without a message; messages that
//             leave have a buffer of their own where receives are listed.
// Units:      bytes.
// Checked by: tests/unit/schedule/lowering_test.cpp, simulated_program_test.cpp
#include "schedule/program/lowering_messages.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace plansearch {

OrderWays::OrderWays(const ComputeOrder& order)
    : order_(order),
      micro_batches_(static_cast<std::size_t>(order.micro_batches)),
      template_(pipeline_template(order)),
      numbers_(order),
      stage_of_(stages_by_place(order)),
      way_in_(template_.size()),
      way_out_(template_.size()) {
  for (NodeId to = 0; to < template_.size(); ++to) {
    for (const NodeId from : template_.inputs(to)) {
      if (template_.device(from) == template_.device(to)) continue;
      const TemplateNode& made = template_.node(from);
      const auto stage = static_cast<std::size_t>(made.group);
      const bool forward = made.phase == Phase::Forward;
      const Way way{forward ? stage : stage - 1, made.phase, from, to};
      way_in_[to] = way_out_[from] = way;
      ways_.push_back(way);
    }
  }
  std::sort(ways_.begin(), ways_.end(), [](const Way& a, const Way& b) {
    return std::tie(a.boundary, a.direction, a.from) < std::tie(b.boundary, b.direction, b.from);
  });
}

PlacedStep OrderWays::place(std::size_t device, const ComputeStep& step) const {
  const std::size_t slot = device * static_cast<std::size_t>(order_.chunks());
  return {static_cast<int>(device), stage_of_[slot + static_cast<std::size_t>(step.chunk)], step};
}

std::optional<Way> OrderWays::way_in(const PlacedStep& placed) const {
  return way_in_[node_of(placed)];
}

std::optional<Way> OrderWays::way_out(const PlacedStep& placed) const {
  return way_out_[node_of(placed)];
}

InstructionKey key_of(const PlacedStep& placed) {
  return {static_cast<int>(placed.stage),
          0,
          placed.step.pass,
          placed.step.micro_batch,
          placed.step.chunk,
          placed.step.phase};
}

InstructionId emit(Program& program, std::size_t queue, const InstructionKey& key, Opcode opcode,
                   std::uint32_t duration, std::uint32_t subject) {
  const auto id = static_cast<InstructionId>(program.instructions.size());
  program.instructions.push_back({key, opcode, duration, subject});
  program.queues[queue].order.push_back(id);
  return id;
}

BufferId add_buffer(Program& program, int device, BufferKind kind, Bytes bytes) {
  program.buffers.push_back({device, kind, bytes});
  return static_cast<BufferId>(program.buffers.size() - 1);
}

MessageWriter::MessageWriter(const OrderWays& ways, const LoweringOptions& options,
                             Program& program)
    : ways_(ways), options_(options), program_(program), messages_(ways.run_count(), kNoId) {
  if (options.links != nullptr) program_.resources = options.links->resources;
  open_channels();
}

void MessageWriter::open_channels() {
  channel_of_.assign(ways_.nodes().size(), kNoId);
  std::map<std::tuple<int, int, Phase>, std::uint32_t> known;
  const bool apart = options_.sends.channels == ChannelSharing::PerTensor;
  for (const Way& way : ways_.ways()) {
    const int from = ways_.nodes().device(way.from);
    const int to = ways_.nodes().device(way.to);
    const std::tuple id(from, to, apart ? way.direction : Phase::Forward);
    const auto next = static_cast<std::uint32_t>(program_.channels.size());
    const auto [found, inserted] = known.try_emplace(id, next);
    if (inserted) {
      program_.channels.push_back({from, to, options_.receive_slots, uses_of(way)});
    }
    channel_of_[way.from] = found->second;
  }
  receive_queues_.assign(program_.channels.size(), std::nullopt);
}

std::vector<ResourceUse> MessageWriter::uses_of(const Way& way) const {
  if (options_.links == nullptr) return {};
  const PipelineLinks& links = *options_.links;
  return (way.direction == Phase::Forward ? links.forward : links.backward)[way.boundary];
}

Bytes MessageWriter::bytes_of(const Way& way) const {
  const PipelineBytes& bytes = *options_.bytes;
  return (way.direction == Phase::Forward ? bytes.activation : bytes.gradient)[way.boundary];
}

MessageId MessageWriter::message(const Way& way, int micro_batch) {
  MessageId& known = messages_[ways_.run_index(way.from, micro_batch)];
  if (known != kNoId) return known;
  const ComputeOrder& order = ways_.order();
  const TemplateNode& from = ways_.nodes().node(way.from);
  Message made;
  made.key = {from.group,
              0,
              from.pass,
              micro_batch,
              order.pipeline[static_cast<std::size_t>(from.group)].chunk,
              from.phase};
  made.tensor = from.phase == Phase::Forward ? TensorKind::Activation : TensorKind::Gradient;
  made.channel = channel_of_[way.from];
  made.duration = transfer_row(order.pipeline.size(), way.boundary, way.direction);
  known = static_cast<MessageId>(program_.messages.size());
  program_.messages.push_back(made);
  return known;
}

void MessageWriter::send(const Way& way, int micro_batch) {
  const MessageId id = message(way, micro_batch);
  const InstructionKey key = program_.messages[id].key;
  const auto queue =
      static_cast<std::size_t>(program_.channels[program_.messages[id].channel].source);
  const bool waits = options_.sends.sends == SendCompletion::Waits;
  emit(program_, queue, key, waits ? Opcode::Send : Opcode::PostSend, 0, id);
  const BufferId leaving = program_.messages[id].leaving;
  if (leaving != kNoId) emit(program_, queue, key, Opcode::Free, 0, leaving);
}

void MessageWriter::receive(const Way& way, const PlacedStep& placed) {
  const MessageId id = message(way, placed.step.micro_batch);
  const InstructionKey key = program_.messages[id].key;
  const auto compute = static_cast<std::size_t>(placed.device);
  const std::size_t queue = in_order() ? compute : receive_queue(program_.messages[id].channel);
  const bool takes = options_.bytes != nullptr && (in_order() || options_.receive_slots);
  if (takes) {
    program_.messages[id].arriving =
        add_buffer(program_, placed.device, BufferKind::Arriving, bytes_of(way));
  }
  const auto take = [&] {
    if (takes) emit(program_, queue, key, Opcode::Allocate, 0, program_.messages[id].arriving);
  };
  // A buffer is taken when the receive is posted: before a receive that blocks, after a post.
  if (in_order()) take();
  emit(program_, queue, key, in_order() ? Opcode::Receive : Opcode::PostReceive, 0, id);
  if (in_order()) return;
  take();
  emit(program_, compute, key, Opcode::WaitArrived, 0, id);
}

std::size_t MessageWriter::receive_queue(std::uint32_t channel) {
  auto& queue = receive_queues_[channel];
  if (!queue) {
    queue = program_.queues.size();
    program_.queues.push_back({program_.channels[channel].destination,
                               StreamKind::Receive,
                               static_cast<int>(channel),
                               {}});
  }
  return *queue;
}

Bytes BufferWriter::for_weights(std::size_t stage) const {
  const PipelineBytes& bytes = *options_.bytes;
  if (ways_.order().weight_gradients != WeightGradients::Separate) return {};
  return bytes.for_weights.empty() ? bytes.saved[stage] : bytes.for_weights[stage];
}

std::size_t BufferWriter::kept_index(const PlacedStep& placed, Phase until) const {
  const auto micro_batch = static_cast<std::size_t>(placed.step.micro_batch);
  const std::size_t piece = placed.stage * ways_.micro_batches() + micro_batch;
  return 2 * piece + (until == Phase::Backward ? 0 : 1);
}

void BufferWriter::allocate(const PlacedStep& placed) {
  const auto queue = static_cast<std::size_t>(placed.device);
  const auto way = ways_.way_out(placed);
  if (way && messages_.in_order()) {
    const BufferId buffer =
        add_buffer(program_, placed.device, BufferKind::Leaving, messages_.bytes_of(*way));
    program_.messages[messages_.message(*way, placed.step.micro_batch)].leaving = buffer;
    emit(program_, queue, key_of(placed), Opcode::Allocate, 0, buffer);
  }
  if (!ways_.order().keeps(placed.step)) return;
  if (kept_.empty()) {
    kept_.assign(2 * ways_.order().pipeline.size() * ways_.micro_batches(), kNoId);
  }
  const Bytes late = for_weights(placed.stage);
  const Bytes early = options_.bytes->saved[placed.stage] - late;
  const auto keep = [&](Phase until, BufferKind kind, Bytes bytes) {
    if (bytes <= Bytes(0)) return;
    const BufferId buffer = add_buffer(program_, placed.device, kind, bytes);
    kept_[kept_index(placed, until)] = buffer;
    emit(program_, queue, key_of(placed), Opcode::Allocate, 0, buffer);
  };
  keep(Phase::Backward, BufferKind::Activation, early);
  keep(Phase::WeightGradient, BufferKind::ForWeights, late);
}

void BufferWriter::release(const PlacedStep& placed) {
  const auto queue = static_cast<std::size_t>(placed.device);
  if (const auto way = ways_.way_in(placed)) {
    const MessageId id = messages_.message(*way, placed.step.micro_batch);
    const BufferId arrived = program_.messages[id].arriving;
    if (arrived != kNoId) emit(program_, queue, key_of(placed), Opcode::Free, 0, arrived);
  }
  if (placed.step.phase == Phase::Forward || kept_.empty()) return;
  const BufferId kept = kept_[kept_index(placed, placed.step.phase)];
  if (kept != kNoId) emit(program_, queue, key_of(placed), Opcode::Free, 0, kept);
}

}  // namespace plansearch
