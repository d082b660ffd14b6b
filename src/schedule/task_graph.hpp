// SPDX-License-Identifier: Apache-2.0
// The tasks of a program and what each waits for, as flat arrays in an order that can be run.
//
// How to use (any order, any placement, gangs):
//   auto built = build_task_graph(lower(order));                     // once per order
//   const auto table = duration_table(times, order.weight_gradients);
//   TaskSimulator simulator;                                         // keep one per thread
//   simulator.run(std::get<TaskGraph>(built), table);                // many times, no allocation
//   simulator.makespan(); simulator.start(i); simulator.end(i);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/program.hpp"

namespace plansearch {

enum class TaskKind : std::uint8_t {
  Run,
  PostSend,
  PostReceive,
  Wait,
  Collective,
  Allocate,
  Free,
  Apply,
  Transfer
};

enum class EdgeKind : std::uint8_t {
  Queue,       ///< the one before in the same queue or channel
  Data,        ///< what it needs
  Rendezvous,  ///< the other end of the channel
  Slot,        ///< a free receive buffer
};

struct TaskInfo {
  InstructionKey key;
  TaskKind kind = TaskKind::Run;
  int device = 0;  ///< of a transfer: the sender; of a gang: the first
  StreamKind stream = StreamKind::Compute;
  bool operator==(const TaskInfo&) const = default;
};

struct TaskGraph {
  std::vector<TaskInfo> tasks;            ///< every task after all that it waits for
  std::vector<std::uint32_t> duration;    ///< row of the duration table, by task
  std::vector<std::uint32_t> first_edge;  ///< tasks + 1 offsets into the next two
  std::vector<std::uint32_t> waits_for;
  std::vector<EdgeKind> edge_kinds;
  bool operator==(const TaskGraph&) const = default;
};

class TaskSimulator {
 public:
  /// Earliest start and end of every task.
  void run(const TaskGraph& graph, std::span<const Ticks> duration_table);
  [[nodiscard]] Ticks makespan() const { return makespan_; }
  [[nodiscard]] Ticks start(std::size_t task) const { return starts_[task]; }
  [[nodiscard]] Ticks end(std::size_t task) const { return ends_[task]; }

 private:
  std::vector<Ticks> starts_;
  std::vector<Ticks> ends_;
  Ticks makespan_ = 0;
};

}  // namespace plansearch
