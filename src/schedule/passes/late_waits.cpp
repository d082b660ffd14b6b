// SPDX-License-Identifier: Apache-2.0
// Computes:   a program that awaits an arrival just before the piece that reads it, and the end of
//             a send just before its buffer is used again.
// Source:     MPI_Wait as late as the data allow.
// Assumes:    a channel has one buffer for the message being made, and `slots` more.
// Units:      bytes.
// Checked by: tests/unit/schedule/passes_test.cpp
#include <algorithm>

#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

class LateWaits {
 public:
  LateWaits(Program& program, const PassOptions& options)
      : program_(program),
        buffers_(static_cast<std::size_t>(1 + options.slots)),
        places_(places_of(program)),
        sites_(sites_of(program)),
        memory_(static_cast<std::size_t>(program.devices)) {}

  PassResult run() {
    for (const auto& messages : sent_by_channel(program_)) {
      int sunk = 0;
      for (std::size_t n = 0; n < messages.size(); ++n) {
        if (sink_sent(messages, n)) ++sunk;
        sink_arrived(messages[n]);
      }
      if (sunk > 0) add_memory(messages);
    }
    std::vector<bool> leaves(program_.instructions.size(), false);
    for (const QueueMove& move : moves_) leaves[move.id] = true;
    hand_over_events(program_, leaves);
    move_in_queues(program_, moves_);
    return {std::move(program_), moved_, std::move(memory_)};
  }

 private:
  [[nodiscard]] Opcode opcode_at(const Place& place, std::uint32_t position) const {
    return program_.at(program_.queues[place.queue], position).opcode;
  }
  /// Buffers are taken right before a piece: what stands before it stands before those.
  [[nodiscard]] std::uint32_t before_piece(InstructionId run) const {
    const Place& place = places_[run];
    std::uint32_t position = place.position;
    while (position > 0 && opcode_at(place, position - 1) == Opcode::Allocate) --position;
    return position;
  }
  [[nodiscard]] std::uint32_t last_run(const Place& place) const {
    auto position = static_cast<std::uint32_t>(program_.queues[place.queue].order.size() - 1);
    while (position > place.position && opcode_at(place, position) != Opcode::Run) --position;
    return position;
  }

  bool sink_sent(const std::vector<MessageId>& messages, std::size_t n) {
    const InstructionId wait = sites_[messages[n]].sent;
    if (wait == kNoId) return false;
    const Place& place = places_[wait];
    QueueMove move{wait, last_run(place), QueueSide::After};
    if (n + buffers_ < messages.size()) {
      InstructionId reuse = program_.messages[messages[n + buffers_]].producer;
      if (program_.instructions[reuse].opcode != Opcode::Run) reuse = kNoId;
      if (reuse != kNoId && places_[reuse].queue == place.queue) {
        move.anchor = before_piece(reuse);
        move.side = QueueSide::Before;
      }
    }
    const BufferId buffer = program_.messages[messages[n]].leaving;
    const InstructionId free = beside(program_, place, Opcode::Free, buffer);
    const std::uint32_t last = free == kNoId ? place.position : place.position + 1;
    const std::uint32_t stays = move.side == QueueSide::Before ? last + 1 : last;
    if (move.anchor <= stays) return false;
    moves_.push_back(move);
    if (free != kNoId) moves_.push_back({free, move.anchor, move.side});
    ++moved_;
    return true;
  }

  void sink_arrived(MessageId message) {
    const InstructionId wait = sites_[message].arrived;
    const InstructionId reader = program_.messages[message].consumer;
    if (wait == kNoId || reader == kNoId || places_[wait].queue != places_[reader].queue) return;
    const std::uint32_t anchor = before_piece(reader);
    if (anchor <= places_[wait].position + 1) return;
    moves_.push_back({wait, anchor, QueueSide::Before});
    ++moved_;
  }

  void add_memory(const std::vector<MessageId>& messages) {
    Bytes largest;
    for (const MessageId message : messages) {
      const BufferId buffer = program_.messages[message].leaving;
      if (buffer != kNoId) largest = std::max(largest, program_.buffers[buffer].bytes);
    }
    const std::size_t more = std::min(buffers_, messages.size()) - 1;
    const Channel& channel = program_.channels[program_.messages[messages.front()].channel];
    memory_[static_cast<std::size_t>(channel.source)] += largest * static_cast<double>(more);
  }

  Program& program_;
  std::size_t buffers_;
  std::vector<Place> places_;
  std::vector<MessageSites> sites_;
  std::vector<QueueMove> moves_;
  std::vector<Bytes> memory_;
  int moved_ = 0;
};

PassResult run(Program program, const PassOptions& options) {
  return LateWaits(program, options).run();
}

}  // namespace

ProgramPass late_waits_pass() {
  return {"late-waits",
          "arrivals are awaited when they are read, sends when their buffer is reused",
          "waits put off", run};
}

}  // namespace plansearch
