// SPDX-License-Identifier: Apache-2.0
// The tasks of a program and what each waits for, as flat arrays.
//
// How to use (any order, any placement, gangs):
//   const Program program = lower(order);                            // once per order
//   auto built = build_task_graph(program);
//   const auto table = duration_table(times, order.weight_gradients);
//   TaskSimulator simulator;                                         // keep one per thread
//   simulator.run(std::get<TaskGraph>(built), table);                // many times, no allocation
//   simulator.makespan(); simulator.start(i); simulator.end(i);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/program/program.hpp"

namespace plansearch {

enum class EdgeKind : std::uint8_t {
  Queue,       ///< the one before in the same queue or channel
  Data,        ///< what it needs
  Rendezvous,  ///< the other end of the channel
  Slot,        ///< a free receive buffer
};

using TaskId = std::uint32_t;

/// A task is an instruction or the way of a message. Send and Receive are two: post and wait;
/// Allocate and Free are none.
struct Task {
  std::uint32_t index = 0;  ///< of the instruction, or of the message
  Opcode opcode = Opcode::Run;
  bool transfer = false;
  bool operator==(const Task&) const = default;
};

struct TaskGraph {
  std::vector<Task> tasks;                ///< each after all that it waits for
  std::vector<std::uint32_t> duration;    ///< row of the duration table, by task
  std::vector<std::uint32_t> first_edge;  ///< tasks + 1 offsets into the next two
  std::vector<TaskId> waits_for;
  std::vector<EdgeKind> edge_kinds;
  /// By instruction: its task; of Allocate and Free the task before it in the queue; kNoId for the
  /// first of a queue, and for what stands in no queue.
  std::vector<TaskId> task_of;
  std::vector<TaskId> transfer_of;  ///< by message; kNoId for what no queue posts
  bool operator==(const TaskGraph&) const = default;
};

/// A task as messages name it.
struct TaskInfo {
  InstructionKey key;
  Opcode opcode = Opcode::Run;
  bool transfer = false;
  int device = 0;  ///< of a transfer: the sender; of a gang: the first
  StreamKind stream = StreamKind::Compute;
  bool operator==(const TaskInfo&) const = default;
};
[[nodiscard]] TaskInfo task_info(const Program& program, const TaskGraph& graph, TaskId task);

class TaskSimulator {
 public:
  /// Earliest start and end of every task, each message at full speed.
  void run(const TaskGraph& graph, std::span<const Ticks> duration_table);
  /// The same with the links that messages share.
  void run(const Program& program, const TaskGraph& graph, std::span<const Ticks> duration_table);

  [[nodiscard]] Ticks makespan() const { return makespan_; }
  [[nodiscard]] Ticks start(std::size_t task) const { return starts_[task]; }
  [[nodiscard]] Ticks end(std::size_t task) const { return ends_[task]; }
  /// When an instruction has ended; 0 where nothing stands before it in its queue.
  [[nodiscard]] Ticks end_of(const TaskGraph& graph, InstructionId instruction) const {
    const TaskId task = graph.task_of[instruction];
    return task == kNoId ? 0 : ends_[task];
  }

 private:
  friend class SharedLinkSimulation;
  /// Whether messages of the last run ask for more than all of a resource at some time.
  [[nodiscard]] bool messages_meet(const Program& program, const TaskGraph& graph) const;

  std::vector<Ticks> starts_;
  std::vector<Ticks> ends_;
  Ticks makespan_ = 0;
};

}  // namespace plansearch
