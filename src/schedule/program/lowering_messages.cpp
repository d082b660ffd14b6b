// SPDX-License-Identifier: Apache-2.0
// Computes:   channels between devices, and the sends and receives of every message.
// Source:     alpa-projects/alpa@b8078a9f runtime_emitter.py (just-in-time and overlapped lists).
// Assumes:    as lowering.cpp.
// Units:      bytes.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include "schedule/program/lowering_messages.hpp"

#include <map>
#include <tuple>

namespace plansearch {

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
      program_.channels.push_back(
          {from, to, ChannelSemantics::Rendezvous, options_.receive_slots, uses_of(way)});
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

}  // namespace plansearch
