// SPDX-License-Identifier: Apache-2.0
// Computes:   a program without the waits and events that others imply.
// Source:     transitive reduction of a directed acyclic graph (Aho, Garey, Ullman 1972).
// Assumes:    nothing; it changes no time.
// Units:      none.
// Checked by: tests/unit/schedule/passes_test.cpp

#include "plansearch/stop_token.hpp"
#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

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

PassResult run(Program program, const PassOptions&) {
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

ProgramPass drop_implied_waits_pass() {
  return {"drop-implied-waits", "waits that follow from others are left out", "waits dropped", run};
}

}  // namespace plansearch
