// SPDX-License-Identifier: Apache-2.0
// Computes:   a program that awaits an arrival just before the piece that reads it, and the end of
//             a send just before its buffer is used again; a program without the waits and events
//             that others imply.
// Source:     MPI_Wait as late as the data allow; transitive reduction of a directed acyclic graph
//             (Aho, Garey, Ullman 1972).
// Assumes:    a channel has one buffer for the message being made, and `slots` more; to leave out
//             what is implied changes no time.
// Units:      bytes.
// Checked by: tests/unit/schedule/passes_test.cpp

#include "plansearch/stop_token.hpp"
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
      if (sunk == 0) continue;
      const Channel& channel = program_.channels[program_.messages[messages.front()].channel];
      memory_[static_cast<std::size_t>(channel.source)] +=
          bytes_of_slots(program_, messages, &Message::leaving, buffers_);
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

  Program& program_;
  std::size_t buffers_;
  std::vector<Place> places_;
  std::vector<MessageSites> sites_;
  std::vector<QueueMove> moves_;
  std::vector<Bytes> memory_;
  int moved_ = 0;
};

PassResult wait_late(Program program, const PassOptions& options) {
  return LateWaits(program, options).run();
}

class Reachability {
 public:
  explicit Reachability(const TaskGraph& graph) : graph_(graph), seen_(graph.tasks.size(), kNoId) {}

  /// Whether `task` waits for `before` also by another way than that edge.
  bool otherwise(TaskId task, TaskId before) {
    ++mark_;
    open_.clear();
    bool direct = false;
    for (std::uint32_t e = graph_.first_edge[task]; e < graph_.first_edge[task + 1]; ++e) {
      const TaskId next = graph_.waits_for[e];
      if (next == before && !direct) {
        direct = true;
        continue;
      }
      look_at(next, before);
    }
    while (!open_.empty()) {
      stop_.check();
      const TaskId at = open_.back();
      open_.pop_back();
      if (at == before) return true;
      for (std::uint32_t e = graph_.first_edge[at]; e < graph_.first_edge[at + 1]; ++e) {
        look_at(graph_.waits_for[e], before);
      }
    }
    return false;
  }

 private:
  /// Instructions ahead of `before` do not wait for it.
  void look_at(TaskId task, TaskId before) {
    if (seen_[task] == mark_ || task < before) return;
    seen_[task] = mark_;
    open_.push_back(task);
  }

  const TaskGraph& graph_;
  std::vector<std::uint32_t> seen_;
  std::vector<TaskId> open_;
  std::uint32_t mark_ = 0;
  OccasionalStop stop_{4096};
};

PassResult drop_implied(Program program, const PassOptions&) {
  const auto built = build_task_graph(program);
  const auto* graph = std::get_if<TaskGraph>(&built);
  if (graph == nullptr) return {std::move(program), 0, {}};
  Reachability reachability(*graph);
  std::vector<bool> implied(program.instructions.size(), false);
  std::size_t dropped = 0;
  for (const Queue& queue : program.queues) {
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program.instructions[id];
      const Opcode opcode = instruction.opcode;
      if (opcode != Opcode::WaitSent && opcode != Opcode::WaitArrived) continue;
      const TaskId transfer = graph->transfer_of[instruction.subject];
      implied[id] = reachability.otherwise(graph->task_of[id], transfer);
      if (implied[id]) ++dropped;
    }
  }
  const std::size_t events = program.events.size();
  std::erase_if(program.events, [&](const Event& event) {
    const TaskId after = graph->task_of[event.after];
    return after == kNoId || reachability.otherwise(graph->task_of[event.before], after);
  });
  dropped += events - program.events.size();
  hand_over_events(program, implied);
  for (Queue& queue : program.queues) {
    std::erase_if(queue.order, [&](InstructionId id) { return static_cast<bool>(implied[id]); });
  }
  return {std::move(program), static_cast<int>(dropped), {}};
}

}  // namespace

ProgramPass late_waits_pass() {
  return {"late-waits",
          "arrivals are awaited when they are read, sends when their buffer is reused",
          "waits put off", wait_late};
}

ProgramPass drop_implied_waits_pass() {
  return {"drop-implied-waits", "waits that follow from others are left out", "waits dropped",
          drop_implied};
}

}  // namespace plansearch
