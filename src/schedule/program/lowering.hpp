// SPDX-License-Identifier: Apache-2.0
// From a compute order to a program with sends and receives, and from a program to a task graph.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schedule/program/program.hpp"
#include "schedule/simulation/task_graph.hpp"

namespace plansearch {

/// When a message is sent.
enum class SendTime : std::uint8_t {
  Produced,  ///< at once
  Consumed,  ///< when its consumer is about to run, by the clock of equal pieces
};
/// The behaviour of a sender until the message has arrived.
enum class SendCompletion : std::uint8_t { GoesOn, Waits };
/// Where receives are posted.
enum class Receives : std::uint8_t {
  Ahead,    ///< by a queue of their own
  InOrder,  ///< on the compute queue, which waits for the arrival at once
};
/// Which messages from one device to another share a channel.
enum class ChannelSharing : std::uint8_t { PerTensor, PerPair };

/// How a runtime places sends and receives. Named combinations stand below.
struct SendPolicy {
  SendTime time = SendTime::Produced;
  SendCompletion sends = SendCompletion::GoesOn;
  Receives receives = Receives::Ahead;
  ChannelSharing channels = ChannelSharing::PerTensor;
  bool operator==(const SendPolicy&) const = default;

  /// Sent when produced, on channels of their own; receives posted ahead.
  static const SendPolicy Asynchronous;
  /// The same, but the sender waits for the arrival before it goes on.
  static const SendPolicy Blocking;
  /// Send and receive block both compute queues, in the sequence of the order: deadlocks where two
  /// neighbours send to each other.
  static const SendPolicy Rendezvous;
  /// The same, but sent when the consumer is about to run (Alpa's default runtime).
  static const SendPolicy JustInTime;
};
inline constexpr SendPolicy SendPolicy::Asynchronous{};
inline constexpr SendPolicy SendPolicy::Blocking{SendTime::Produced, SendCompletion::Waits,
                                                 Receives::Ahead, ChannelSharing::PerTensor};
inline constexpr SendPolicy SendPolicy::Rendezvous{SendTime::Produced, SendCompletion::Waits,
                                                   Receives::InOrder, ChannelSharing::PerPair};
inline constexpr SendPolicy SendPolicy::JustInTime{SendTime::Consumed, SendCompletion::Waits,
                                                   Receives::InOrder, ChannelSharing::PerPair};

/// Bytes that the pieces of a pipeline keep and send, by virtual stage and by boundary.
struct PipelineBytes {
  std::vector<Bytes> saved;        ///< from a forward to the end of its backward
  std::vector<Bytes> for_weights;  ///< the part that the weight gradient reads; empty: all of it
  std::vector<Bytes> activation;   ///< a message forward
  std::vector<Bytes> gradient;     ///< a message backward
};

/// Resources that the messages of a pipeline share.
struct PipelineLinks {
  std::vector<Resource> resources;
  std::vector<std::vector<ResourceUse>> forward;   ///< by boundary
  std::vector<std::vector<ResourceUse>> backward;  ///< by boundary
};

/// When the gradients of a device are reduced over its replicas.
enum class ReductionTime : std::uint8_t {
  AfterPipeline,     ///< when it has nothing left to send
  WithLastBackward,  ///< in one executable with its last piece, whose result is sent after it
};

/// Work of devices after their last micro-batch.
struct StepEnd {
  bool together = true;             ///< optimizers start after the slowest reduction
  std::vector<bool> sums_shared{};  ///< by device: whether it sums gradients with others
  ReductionTime reductions = ReductionTime::AfterPipeline;
};

struct LoweringOptions {
  SendPolicy sends = SendPolicy::Asynchronous;
  std::optional<int> receive_slots{};    ///< buffers per channel, where receives are posted ahead
  const PipelineBytes* bytes = nullptr;  ///< absent: nothing is allocated
  const PipelineLinks* links = nullptr;  ///< absent: nothing is shared
  const StepEnd* end = nullptr;          ///< absent: the pipeline alone
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
