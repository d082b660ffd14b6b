// SPDX-License-Identifier: Apache-2.0
// A program: instructions, and for every device and stream the order in which they are issued; the
// messages between devices, the buffers they fill, the links they share. Plain data: lowering.hpp
// makes programs, passes map programs to programs, build_task_graph checks them.
//
// Semantics. A queue runs its instructions in order, each after the one before has ended. Run,
// Collective and Apply last as long as their row of the duration table says. PostSend and
// PostReceive take no time: a message travels once it is posted (under rendezvous: at both ends)
// and the messages before it on its channel have arrived, for as long as its own row says, longer
// while it shares a link. WaitSent and WaitArrived end when it has arrived. Send and Receive are a
// post and its wait in one. Instructions of one gang are one task on several queues.
//
// Instructions, messages and buffers are named by their index, which no pass changes: what a pass
// takes out of the queues stays in the lists.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plansearch/quantity.hpp"
#include "schedule/order/compute_order.hpp"
#include "schedule/templates/task_template.hpp"

namespace plansearch {

using InstructionId = std::uint32_t;
using MessageId = std::uint32_t;
using BufferId = std::uint32_t;
inline constexpr std::uint32_t kNoId = ~std::uint32_t{0};

/// The subject of an instruction. Two instructions about the same thing have the same key: a
/// message has the key of what produced it.
struct InstructionKey {
  int group = 0;  ///< operator group; in pipelines the virtual stage
  int piece = 0;  ///< of a temporal split of the group
  int pass = 0;   ///< of several forward passes of one micro-batch
  int micro_batch = 0;
  int chunk = 0;
  Phase phase = Phase::Forward;
  auto operator<=>(const InstructionKey&) const = default;
};

enum class Opcode : std::uint8_t {
  Run,
  Send,
  Receive,
  PostSend,
  PostReceive,
  WaitSent,
  WaitArrived,
  Collective,  ///< among the ranks of the device, or the devices of its gang
  Apply,       ///< the optimizer step of a device
  Allocate,
  Free,
};

struct Instruction {
  InstructionKey key;
  Opcode opcode = Opcode::Run;
  std::uint32_t duration = 0;     ///< row of the duration table; row 0 is zero time
  std::uint32_t subject = kNoId;  ///< the message of sends, receives and waits; the buffer of
                                  ///< Allocate and Free; of others the gang, if any
  bool operator==(const Instruction&) const = default;
};

enum class StreamKind : std::uint8_t { Compute, Send, Receive, Collective };

struct Queue {
  int device = 0;
  StreamKind stream = StreamKind::Compute;
  int lane = 0;  ///< number among streams of one kind
  std::vector<InstructionId> order;
  bool operator==(const Queue&) const = default;
};

/// A resource that messages share: the network card out of a node or into it, or a link.
enum class ResourceKind : std::uint8_t { NicOut, NicIn, Link };
struct Resource {
  ResourceKind kind = ResourceKind::Link;
  int index = 0;  ///< of the node or the link
  bool operator==(const Resource&) const = default;
};
/// The share of a resource that a message takes at full speed. Where demands add up to more
/// than 1, all of them slow down alike.
struct ResourceUse {
  std::uint32_t resource = 0;  ///< index into Program::resources
  double demand = 1.0;
  bool operator==(const ResourceUse&) const = default;
};

/// Its messages travel when both ends are posted.
struct Channel {
  int source = 0;
  int destination = 0;
  /// Buffers for messages received but not yet used up; absent: as many as it takes.
  std::optional<int> receive_slots;
  std::vector<ResourceUse> uses{};
  bool operator==(const Channel&) const = default;
};

enum class TensorKind : std::uint8_t { Activation, Gradient };

struct Message {
  InstructionKey key;
  TensorKind tensor = TensorKind::Activation;
  int tile = 0;  ///< which part of the tensor
  std::uint32_t channel = 0;
  std::uint32_t duration = 0;      ///< row of the duration table
  InstructionId producer = kNoId;  ///< the Run that makes it
  InstructionId consumer = kNoId;  ///< the Run that reads it
  BufferId arriving = kNoId;       ///< where it arrives, if that is known
  BufferId leaving = kNoId;        ///< where it is sent from, if that is known
  bool operator==(const Message&) const = default;
};

enum class BufferKind : std::uint8_t {
  Activation,  ///< kept from a forward to the end of its backward
  ForWeights,  ///< the part of it that the weight gradient reads
  Arriving,    ///< a message received, until it has been read
  Leaving,     ///< a message made, until it has been sent
};
struct Buffer {
  int device = 0;
  BufferKind kind = BufferKind::Activation;
  Bytes bytes;
  bool operator==(const Buffer&) const = default;
};

/// Recorded when `after` has ended, awaited before `before` starts; across queues, or where queue
/// order does not say so.
struct Event {
  InstructionId after = 0;
  InstructionId before = 0;
  bool operator==(const Event&) const = default;
};

struct Program {
  int devices = 0;
  std::vector<Instruction> instructions;
  std::vector<Queue> queues;
  std::vector<Channel> channels;
  std::vector<Message> messages;
  std::vector<Event> events;
  std::vector<Buffer> buffers;
  std::vector<Resource> resources;
  bool operator==(const Program&) const = default;

  [[nodiscard]] const Instruction& at(const Queue& queue, std::size_t position) const {
    return instructions[queue.order[position]];
  }
};

/// Whether the subject of an instruction is a message.
[[nodiscard]] constexpr bool is_about_message(Opcode opcode) {
  return opcode >= Opcode::Send && opcode <= Opcode::WaitArrived;
}
[[nodiscard]] constexpr bool is_about_buffer(Opcode opcode) {
  return opcode >= Opcode::Allocate;
}

// Rows of the duration table of a pipeline. Lowering writes them, duration_table fills them.
[[nodiscard]] std::uint32_t compute_row(std::size_t virtual_stage, Phase phase);
/// The row of a forward that runs at the same time as a backward.
[[nodiscard]] std::uint32_t overlapped_row(std::size_t virtual_stage);
[[nodiscard]] std::uint32_t transfer_row(std::size_t virtual_stages, std::size_t boundary,
                                         Phase direction);
/// The row of the message from a node of a pipeline to another device.
[[nodiscard]] std::uint32_t message_row(std::size_t virtual_stages, const TemplateNode& from);

/// The parts of a device's step after its last micro-batch.
enum class StepPart : std::uint8_t {
  Reduction,        ///< gradients over its replicas
  SharedReduction,  ///< gradients that several devices sum
  Optimizer,        ///< with the per-step work of the host
};
[[nodiscard]] std::uint32_t step_row(std::size_t virtual_stages, int device, StepPart part);

/// The times of one device at the end of a step.
struct StepEndTicks {
  Ticks reduction = 0;
  Ticks shared_reduction = 0;
  Ticks optimizer = 0;
};
/// `ends`: by device, where the program goes on to the end of the step.
[[nodiscard]] std::vector<Ticks> duration_table(const PipelineTimes& times, WeightGradients split,
                                                std::span<const StepEndTicks> ends = {});
/// The same into a table that keeps its memory.
void fill_duration_table(const PipelineTimes& times, WeightGradients split,
                         std::span<const StepEndTicks> ends, std::vector<Ticks>& table);

}  // namespace plansearch
