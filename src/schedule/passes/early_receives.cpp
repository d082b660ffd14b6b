// SPDX-License-Identifier: Apache-2.0
// Computes:   a program that posts a receive as soon as one of the channel's buffers is free.
// Source:     receives posted ahead, as many as there are buffers (MPI_Irecv; NCCL groups).
// Assumes:    a channel has one buffer for the message in use, and `slots` more.
// Units:      bytes.
// Checked by: tests/unit/schedule/passes_test.cpp
#include <algorithm>

#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

class EarlyReceives {
 public:
  EarlyReceives(Program& program, const PassOptions& options)
      : program_(program),
        buffers_(static_cast<std::size_t>(1 + options.slots)),
        places_(places_of(program)),
        sites_(sites_of(program)),
        held_(program.instructions.size(), false),
        free_(program.instructions.size(), false),
        memory_(static_cast<std::size_t>(program.devices)) {
    for (const Event& event : program.events) held_[event.before] = true;
  }

  PassResult run() {
    const auto sent = sent_by_channel(program_);
    for (std::size_t c = 0; c < sent.size(); ++c) {
      if (program_.channels[c].receive_slots || !listed(sent[c])) continue;
      for (std::size_t n = 0; n < sent[c].size(); ++n) advance(sent[c], n);
      program_.channels[c].receive_slots = static_cast<int>(buffers_);
      add_memory(sent[c]);
    }
    drop_events();
    move_in_queues(program_, moves_);
    return {std::move(program_), moved_, std::move(memory_)};
  }

 private:
  /// Whether the receives of a channel, all of them posts, wait for something: the compute queue or
  /// an event.
  [[nodiscard]] bool listed(const std::vector<MessageId>& messages) const {
    bool waits = false;
    for (const MessageId message : messages) {
      const InstructionId receive = sites_[message].receive;
      if (program_.instructions[receive].opcode != Opcode::PostReceive) return false;
      const Queue& queue = program_.queues[places_[receive].queue];
      waits = waits || queue.stream == StreamKind::Compute || held_[receive];
    }
    return waits;
  }

  /// On the compute queue: behind what frees its buffer; on a stream of its own slots say that.
  void advance(const std::vector<MessageId>& messages, std::size_t n) {
    const InstructionId receive = sites_[messages[n]].receive;
    const Place& place = places_[receive];
    const Queue& queue = program_.queues[place.queue];
    if (queue.stream != StreamKind::Compute) {
      free_[receive] = true;
      return;
    }
    QueueMove move{receive, 0, QueueSide::Before};
    if (n >= buffers_) {
      const InstructionId user = program_.messages[messages[n - buffers_]].consumer;
      move.anchor = places_[user].position;
      move.side = QueueSide::After;
      while (move.anchor + 1 < queue.order.size() &&
             program_.instructions[queue.order[move.anchor + 1]].opcode == Opcode::Free) {
        ++move.anchor;
      }
    }
    const BufferId buffer = program_.messages[messages[n]].arriving;
    const InstructionId allocate = beside(program_, place, Opcode::Allocate, buffer);
    const std::uint32_t first = allocate == kNoId ? place.position : place.position - 1;
    if (move.side == QueueSide::After && move.anchor + 1 >= first) return;
    const bool there = move.side == QueueSide::Before && first == 0;
    if (allocate != kNoId) moves_.push_back({allocate, move.anchor, move.side});
    moves_.push_back(move);
    if (!there) ++moved_;
  }

  void drop_events() {
    const auto end = std::remove_if(program_.events.begin(), program_.events.end(),
                                    [&](const Event& event) { return free_[event.before]; });
    moved_ += static_cast<int>(program_.events.end() - end);
    program_.events.erase(end, program_.events.end());
  }

  /// As many buffers more as the channel has messages for.
  void add_memory(const std::vector<MessageId>& messages) {
    Bytes largest;
    for (const MessageId message : messages) {
      const BufferId buffer = program_.messages[message].arriving;
      if (buffer != kNoId) largest = std::max(largest, program_.buffers[buffer].bytes);
    }
    const std::size_t more = std::min(buffers_, messages.size()) - 1;
    const Channel& channel = program_.channels[program_.messages[messages.front()].channel];
    memory_[static_cast<std::size_t>(channel.destination)] += largest * static_cast<double>(more);
  }

  Program& program_;
  std::size_t buffers_;
  std::vector<Place> places_;
  std::vector<MessageSites> sites_;
  std::vector<bool> held_;  ///< instructions that wait for an event
  std::vector<bool> free_;  ///< posts whose events go
  std::vector<QueueMove> moves_;
  std::vector<Bytes> memory_;
  int moved_ = 0;
};

PassResult run(Program program, const PassOptions& options) {
  return EarlyReceives(program, options).run();
}

}  // namespace

ProgramPass early_receives_pass() {
  return {"early-receives", "a receive is posted when a buffer is free, not when it is needed",
          "receives posted earlier", run};
}

}  // namespace plansearch
