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

OrderPaths::OrderPaths(const ComputeOrder& order)
    : order_(order),
      micro_batches_(static_cast<std::size_t>(order.micro_batches)),
      template_(pipeline_template(order)),
      numbers_(order),
      stage_of_(stages_by_place(order)),
      path_in_(template_.size()),
      path_out_(template_.size()) {
  for (NodeId to = 0; to < template_.size(); ++to) {
    for (const NodeId from : template_.inputs(to)) {
      if (template_.device(from) == template_.device(to)) continue;
      const TemplateNode& made = template_.node(from);
      const auto stage = static_cast<std::size_t>(made.group);
      const bool forward = made.phase == Phase::Forward;
      const Path path{forward ? stage : stage - 1, made.phase, from, to};
      path_in_[to] = path_out_[from] = path;
      paths_.push_back(path);
    }
  }
  std::sort(paths_.begin(), paths_.end(), [](const Path& a, const Path& b) {
    return std::tie(a.boundary, a.direction, a.from) < std::tie(b.boundary, b.direction, b.from);
  });
}

PlacedStep OrderPaths::place(std::size_t device, const ComputeStep& step) const {
  const std::size_t slot = device * static_cast<std::size_t>(order_.chunks());
  return {static_cast<int>(device), stage_of_[slot + static_cast<std::size_t>(step.chunk)], step};
}

std::optional<Path> OrderPaths::path_in(const PlacedStep& placed) const {
  return path_in_[node_of(placed)];
}

std::optional<Path> OrderPaths::path_out(const PlacedStep& placed) const {
  return path_out_[node_of(placed)];
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

MessageWriter::MessageWriter(const OrderPaths& paths, const LoweringOptions& options,
                             Program& program)
    : paths_(paths), options_(options), program_(program), messages_(paths.run_count(), kNoId) {
  if (options.links != nullptr) program_.resources = options.links->resources;
  open_channels();
}

void MessageWriter::open_channels() {
  channel_of_.assign(paths_.nodes().size(), kNoId);
  std::map<std::tuple<int, int, Phase>, std::uint32_t> known;
  const bool apart = options_.sends.channels == ChannelSharing::PerTensor;
  for (const Path& path : paths_.paths()) {
    const int from = paths_.nodes().device(path.from);
    const int to = paths_.nodes().device(path.to);
    const std::tuple id(from, to, apart ? path.direction : Phase::Forward);
    const auto next = static_cast<std::uint32_t>(program_.channels.size());
    const auto [found, inserted] = known.try_emplace(id, next);
    if (inserted) {
      program_.channels.push_back({from, to, options_.receive_slots, uses_of(path)});
    }
    channel_of_[path.from] = found->second;
  }
  receive_queues_.assign(program_.channels.size(), std::nullopt);
}

std::vector<ResourceUse> MessageWriter::uses_of(const Path& path) const {
  if (options_.links == nullptr) return {};
  const PipelineLinks& links = *options_.links;
  return (path.direction == Phase::Forward ? links.forward : links.backward)[path.boundary];
}

Bytes MessageWriter::bytes_of(const Path& path) const {
  const PipelineBytes& bytes = *options_.bytes;
  return (path.direction == Phase::Forward ? bytes.activation : bytes.gradient)[path.boundary];
}

MessageId MessageWriter::message(const Path& path, int micro_batch) {
  MessageId& known = messages_[paths_.run_index(path.from, micro_batch)];
  if (known != kNoId) return known;
  const ComputeOrder& order = paths_.order();
  const TemplateNode& from = paths_.nodes().node(path.from);
  Message made;
  made.key = {from.group,
              0,
              from.pass,
              micro_batch,
              order.pipeline[static_cast<std::size_t>(from.group)].chunk,
              from.phase};
  made.tensor = from.phase == Phase::Forward ? TensorKind::Activation : TensorKind::Gradient;
  made.channel = channel_of_[path.from];
  made.duration = transfer_row(order.pipeline.size(), path.boundary, path.direction);
  known = static_cast<MessageId>(program_.messages.size());
  program_.messages.push_back(made);
  return known;
}

void MessageWriter::send(const Path& path, int micro_batch) {
  const MessageId id = message(path, micro_batch);
  const InstructionKey key = program_.messages[id].key;
  const auto queue =
      static_cast<std::size_t>(program_.channels[program_.messages[id].channel].source);
  const bool waits = options_.sends.sends == SendCompletion::Waits;
  emit(program_, queue, key, waits ? Opcode::Send : Opcode::PostSend, 0, id);
  const BufferId leaving = program_.messages[id].leaving;
  if (leaving != kNoId) emit(program_, queue, key, Opcode::Free, 0, leaving);
}

void MessageWriter::receive(const Path& path, const PlacedStep& placed) {
  const MessageId id = message(path, placed.step.micro_batch);
  const InstructionKey key = program_.messages[id].key;
  const auto compute = static_cast<std::size_t>(placed.device);
  const std::size_t queue = in_order() ? compute : receive_queue(program_.messages[id].channel);
  const bool takes = options_.bytes != nullptr && (in_order() || options_.receive_slots);
  if (takes) {
    program_.messages[id].arriving =
        add_buffer(program_, placed.device, BufferKind::Arriving, bytes_of(path));
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
  if (paths_.order().weight_gradients != WeightGradients::Separate) return {};
  return bytes.for_weights.empty() ? bytes.saved[stage] : bytes.for_weights[stage];
}

std::size_t BufferWriter::kept_index(const PlacedStep& placed, Phase until) const {
  const auto micro_batch = static_cast<std::size_t>(placed.step.micro_batch);
  const std::size_t piece = placed.stage * paths_.micro_batches() + micro_batch;
  return 2 * piece + (until == Phase::Backward ? 0 : 1);
}

void BufferWriter::allocate(const PlacedStep& placed) {
  const auto queue = static_cast<std::size_t>(placed.device);
  const auto path = paths_.path_out(placed);
  if (path && messages_.in_order()) {
    const BufferId buffer =
        add_buffer(program_, placed.device, BufferKind::Leaving, messages_.bytes_of(*path));
    program_.messages[messages_.message(*path, placed.step.micro_batch)].leaving = buffer;
    emit(program_, queue, key_of(placed), Opcode::Allocate, 0, buffer);
  }
  if (!paths_.order().keeps(placed.step)) return;
  if (kept_.empty()) {
    kept_.assign(2 * paths_.order().pipeline.size() * paths_.micro_batches(), kNoId);
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
  if (const auto path = paths_.path_in(placed)) {
    const MessageId id = messages_.message(*path, placed.step.micro_batch);
    const BufferId arrived = program_.messages[id].arriving;
    if (arrived != kNoId) emit(program_, queue, key_of(placed), Opcode::Free, 0, arrived);
  }
  if (placed.step.phase == Phase::Forward || kept_.empty()) return;
  const BufferId kept = kept_[kept_index(placed, placed.step.phase)];
  if (kept != kNoId) emit(program_, queue, key_of(placed), Opcode::Free, 0, kept);
}

}  // namespace plansearch
