// SPDX-License-Identifier: Apache-2.0
// Computes:   a program that sends a message as soon as it has been made, and one that posts a
//             receive as soon as one of the channel's buffers is free.
// Source:     alpa-projects/alpa@b8078a9f runtime_emitter.py (overlap-friendly emitter); receives
//             posted ahead, as many as there are buffers (MPI_Irecv; NCCL groups).
// Assumes:    the messages of a channel keep their order: none overtakes the one before it; a
//             channel has one buffer for the message in use, and `slots` more.
// Units:      bytes.
// Checked by: tests/unit/schedule/passes_test.cpp
#include <algorithm>

#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

PassResult send_early(Program program, const PassOptions&) {
  const std::vector<Place> places = places_of(program);
  const std::vector<MessageSites> sites = sites_of(program);
  std::vector<InstructionId> producer_of(program.instructions.size(), kNoId);  // by post elsewhere
  std::vector<QueueMove> moves;
  int moved = 0;
  for (const auto& messages : sent_by_channel(program)) {
    std::uint32_t earliest = 0;
    for (const MessageId message : messages) {
      const InstructionId send = sites[message].send;
      const InstructionId producer = program.messages[message].producer;
      if (program.instructions[send].opcode != Opcode::PostSend || producer == kNoId) {
        earliest = std::max(earliest, places[send].position);
        continue;
      }
      if (places[send].queue != places[producer].queue) {
        producer_of[send] = producer;
        continue;
      }
      earliest = std::max(earliest, places[producer].position);
      if (earliest + 1 >= places[send].position) {
        earliest = places[send].position;
        continue;
      }
      moves.push_back({send, earliest, QueueSide::After});
      ++moved;
    }
  }
  for (Event& event : program.events) {
    const InstructionId producer = producer_of[event.before];
    if (producer == kNoId || event.after == producer) continue;
    if (places[event.after].queue != places[producer].queue) continue;
    if (places[event.after].position > places[producer].position) ++moved;
    event.after = producer;
  }
  move_in_queues(program, moves);
  return {std::move(program), moved, {}};
}

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
      const int device = program_.channels[c].destination;
      memory_[static_cast<std::size_t>(device)] +=
          bytes_of_slots(program_, sent[c], &Message::arriving, buffers_);
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

PassResult receive_early(Program program, const PassOptions& options) {
  return EarlyReceives(program, options).run();
}

}  // namespace

ProgramPass early_sends_pass() {
  return {"early-sends", "a message is sent when it has been made, not when it is needed",
          "sends issued earlier", send_early};
}

ProgramPass early_receives_pass() {
  return {"early-receives", "a receive is posted when a buffer is free, not when it is needed",
          "receives posted earlier", receive_early};
}

}  // namespace plansearch
