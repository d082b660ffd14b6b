// SPDX-License-Identifier: Apache-2.0
// From a compute order to a program with sends and receives, and from a program to a task graph.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schedule/program.hpp"
#include "schedule/task_graph.hpp"

namespace plansearch {

enum class SendPolicy : std::uint8_t {
  Asynchronous,  ///< sent when produced, on channels of their own; receives posted ahead
  Blocking,      ///< as above, but the sender waits for the arrival before it goes on
  Rendezvous,    ///< send and receive block both compute queues, in the sequence of the order:
                 ///< deadlocks where two neighbours send to each other
  JustInTime,    ///< as Rendezvous, but sent when the consumer is about to run, in the sequence of
                 ///< the clock of equal pieces (Alpa's default runtime)
};

struct LoweringOptions {
  SendPolicy sends = SendPolicy::Asynchronous;
  std::optional<int> receive_slots;  ///< Asynchronous and Blocking: buffers per channel
  bool operator==(const LoweringOptions&) const = default;
};

[[nodiscard]] Program lower(const ComputeOrder& order, const LoweringOptions& options = {});

enum class FaultKind : std::uint8_t {
  Deadlock,         ///< `waits` is a cycle: each waits for the next, the last for the first
  ChannelMismatch,  ///< the two ends of a channel name different messages
};

struct WaitingTask {
  TaskInfo task;
  EdgeKind because = EdgeKind::Queue;  ///< why it waits for the next one
  bool operator==(const WaitingTask&) const = default;
};

struct ProgramFault {
  FaultKind kind = FaultKind::Deadlock;
  std::vector<WaitingTask> waits;
  std::string detail;  ///< the same in words
  bool operator==(const ProgramFault&) const = default;
};

[[nodiscard]] std::variant<TaskGraph, ProgramFault> build_task_graph(const Program& program);

/// "device 1 compute: wait for F3 of stage 0"
[[nodiscard]] std::string to_text(const TaskInfo& task);

}  // namespace plansearch
