// SPDX-License-Identifier: Apache-2.0
// A program: for every device and stream an ordered list of instructions, and the channels between
// devices. Plain data; passes map programs to programs, lowering.hpp makes and checks them.
//
// Semantics. A queue runs its instructions in order, each after the one before has ended. Run,
// Collective and Apply last as long as their row of the duration table says; the others take no
// time. The row of PostSend is that of its message: it travels once PostSend has run and the
// messages before it on the channel have arrived. Wait ends when the message has arrived.
// Instructions of one gang are one task on several queues.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "schedule/compute_order.hpp"

namespace plansearch {

/// What an instruction is about. Two instructions about the same thing have the same key: a
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

enum class ChannelEnd : std::uint8_t { Send, Receive };

struct Run {
  bool operator==(const Run&) const = default;
};
struct PostSend {
  int channel = 0;
  bool operator==(const PostSend&) const = default;
};
struct PostReceive {
  int channel = 0;
  bool operator==(const PostReceive&) const = default;
};
struct Wait {
  int channel = 0;
  ChannelEnd end = ChannelEnd::Receive;
  bool operator==(const Wait&) const = default;
};
/// A collective among the devices of its gang.
struct Collective {
  bool operator==(const Collective&) const = default;
};
struct Allocate {
  int buffer = 0;
  bool operator==(const Allocate&) const = default;
};
struct Free {
  int buffer = 0;
  bool operator==(const Free&) const = default;
};
/// The optimizer step of an operator group.
struct Apply {
  bool operator==(const Apply&) const = default;
};
using Action = std::variant<Run, PostSend, PostReceive, Wait, Collective, Allocate, Free, Apply>;

struct Instruction {
  InstructionKey key;
  Action action;
  std::uint32_t duration = 0;  ///< row of the duration table; row 0 is no time at all
  std::optional<int> gang;     ///< instructions with the same number are one task
  bool operator==(const Instruction&) const = default;
};

enum class StreamKind : std::uint8_t { Compute, Send, Receive, Collective };

struct Queue {
  int device = 0;
  StreamKind stream = StreamKind::Compute;
  int lane = 0;  ///< tells streams of one kind apart
  std::vector<Instruction> instructions;
  bool operator==(const Queue&) const = default;
};

enum class ChannelSemantics : std::uint8_t {
  Eager,       ///< a message travels as soon as it is posted
  Rendezvous,  ///< it travels when both ends are posted
};

struct Channel {
  int source = 0;
  int destination = 0;
  ChannelSemantics semantics = ChannelSemantics::Rendezvous;
  /// Buffers for messages received but not yet used up; absent: as many as it takes.
  std::optional<int> receive_slots;
  bool operator==(const Channel&) const = default;
};

struct InstructionPlace {
  std::size_t queue = 0;
  std::size_t position = 0;
  auto operator<=>(const InstructionPlace&) const = default;
};

/// Data that one instruction leaves on the device for another, where queue order does not say so.
struct LocalDependency {
  InstructionPlace from;
  InstructionPlace to;
  bool operator==(const LocalDependency&) const = default;
};

struct Program {
  std::vector<Queue> queues;
  std::vector<Channel> channels;
  std::vector<LocalDependency> dependencies;
  bool operator==(const Program&) const = default;

  [[nodiscard]] const Instruction& at(InstructionPlace place) const {
    return queues[place.queue].instructions[place.position];
  }
};

// Rows of the duration table of a pipeline. Lowering writes them, duration_table fills them.
[[nodiscard]] std::uint32_t compute_row(std::size_t virtual_stage, Phase phase);
[[nodiscard]] std::uint32_t transfer_row(std::size_t virtual_stages, std::size_t boundary,
                                         Phase direction);
[[nodiscard]] std::vector<Ticks> duration_table(const PipelineTimes& times, WeightGradients split);

}  // namespace plansearch
