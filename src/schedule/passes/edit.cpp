// SPDX-License-Identifier: Apache-2.0
// Computes:   places of instructions and messages in queues; queues with instructions moved.
// Source:     definitions.
// Assumes:    an instruction stands in at most one queue.
// Units:      none.
// Checked by: tests/unit/schedule/passes_test.cpp
#include "schedule/passes/edit.hpp"

#include <algorithm>

namespace plansearch {

std::vector<Place> places_of(const Program& program) {
  std::vector<Place> places(program.instructions.size());
  for (std::uint32_t q = 0; q < program.queues.size(); ++q) {
    const auto& order = program.queues[q].order;
    for (std::uint32_t i = 0; i < order.size(); ++i) places[order[i]] = {q, i};
  }
  return places;
}

std::vector<MessageSites> sites_of(const Program& program) {
  std::vector<MessageSites> sites(program.messages.size());
  for (const Queue& queue : program.queues) {
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program.instructions[id];
      if (!is_about_message(instruction.opcode)) continue;
      MessageSites& site = sites[instruction.subject];
      const Opcode opcode = instruction.opcode;
      if (opcode == Opcode::Send || opcode == Opcode::PostSend) site.send = id;
      if (opcode == Opcode::Receive || opcode == Opcode::PostReceive) site.receive = id;
      if (opcode == Opcode::WaitSent) site.sent = id;
      if (opcode == Opcode::WaitArrived) site.arrived = id;
    }
  }
  return sites;
}

std::vector<std::vector<MessageId>> sent_by_channel(const Program& program) {
  std::vector<std::vector<MessageId>> sent(program.channels.size());
  for (const Queue& queue : program.queues) {
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program.instructions[id];
      if (instruction.opcode != Opcode::Send && instruction.opcode != Opcode::PostSend) continue;
      sent[program.messages[instruction.subject].channel].push_back(instruction.subject);
    }
  }
  return sent;
}

InstructionId beside(const Program& program, const Place& place, Opcode opcode, BufferId buffer) {
  const auto& order = program.queues[place.queue].order;
  const bool before = opcode == Opcode::Allocate;
  if (before ? place.position == 0 : place.position + 1 == order.size()) return kNoId;
  const InstructionId id = order[before ? place.position - 1 : place.position + 1];
  const Instruction& instruction = program.instructions[id];
  return instruction.opcode == opcode && instruction.subject == buffer ? id : kNoId;
}

InstructionId split_off_wait(Program& program, InstructionId id) {
  const bool sends = program.instructions[id].opcode == Opcode::Send;
  Instruction wait = program.instructions[id];
  wait.opcode = sends ? Opcode::WaitSent : Opcode::WaitArrived;
  program.instructions[id].opcode = sends ? Opcode::PostSend : Opcode::PostReceive;
  program.instructions.push_back(wait);
  return static_cast<InstructionId>(program.instructions.size() - 1);
}

void await_at_waits(Program& program, const std::vector<InstructionId>& wait_of) {
  for (Event& event : program.events) {
    if (event.after < wait_of.size() && wait_of[event.after] != kNoId) {
      event.after = wait_of[event.after];
    }
  }
}

void hand_over_events(Program& program, const std::vector<bool>& leaves) {
  const std::vector<Place> places = places_of(program);
  for (Event& event : program.events) {
    const auto& order = program.queues[places[event.after].queue].order;
    std::uint32_t position = places[event.after].position;
    while (position > 0 && leaves[order[position]]) --position;
    event.after = order[position];
  }
  std::erase_if(program.events,
                [&](const Event& event) { return static_cast<bool>(leaves[event.after]); });
}

Bytes bytes_of_slots(const Program& program, const std::vector<MessageId>& messages,
                     BufferId Message::*side, std::size_t buffers) {
  Bytes largest;
  for (const MessageId message : messages) {
    const BufferId buffer = program.messages[message].*side;
    if (buffer != kNoId) largest = std::max(largest, program.buffers[buffer].bytes);
  }
  return largest * static_cast<double>(std::min(buffers, messages.size()) - 1);
}

void move_in_queues(Program& program, std::span<const QueueMove> moves) {
  struct Key {
    std::uint32_t at = 0;
    std::int8_t side = 0;
  };
  std::vector<Place> places = places_of(program);
  std::vector<Key> keys(program.instructions.size());
  std::vector<bool> touched(program.queues.size(), false);
  for (std::size_t id = 0; id < keys.size(); ++id) keys[id].at = places[id].position;
  for (const QueueMove& move : moves) {
    keys[move.id] = {move.anchor, static_cast<std::int8_t>(move.side == QueueSide::After ? 1 : -1)};
    touched[places[move.id].queue] = true;
  }
  for (std::size_t q = 0; q < program.queues.size(); ++q) {
    if (!touched[q]) continue;
    auto& order = program.queues[q].order;
    std::stable_sort(order.begin(), order.end(), [&](InstructionId a, InstructionId b) {
      return keys[a].at != keys[b].at ? keys[a].at < keys[b].at : keys[a].side < keys[b].side;
    });
  }
}

}  // namespace plansearch
