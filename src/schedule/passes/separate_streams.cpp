// SPDX-License-Identifier: Apache-2.0
// Computes:   a program whose posts stand on streams of their own, one per channel and end, and
//             whose channels carry activations or gradients, not both.
// Source:     one communicator and stream per peer and direction (NCCL point-to-point).
// Assumes:    a post keeps its place: it waits for what stood before it on the compute queue.
// Units:      none.
// Checked by: tests/unit/schedule/passes_test.cpp
#include <map>
#include <tuple>

#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

/// Gradients of a channel that carries both go by a channel of their own.
int split_channels(Program& program) {
  std::vector<std::uint32_t> carries(program.channels.size(), 0);
  for (const Message& message : program.messages) {
    carries[message.channel] |= message.tensor == TensorKind::Activation ? 1U : 2U;
  }
  std::vector<std::uint32_t> gradients(program.channels.size(), kNoId);
  int split = 0;
  for (std::size_t c = 0; c < carries.size(); ++c) {
    if (carries[c] != 3U) continue;
    gradients[c] = static_cast<std::uint32_t>(program.channels.size());
    program.channels.push_back(Channel(program.channels[c]));
    ++split;
  }
  for (Message& message : program.messages) {
    const std::uint32_t apart = gradients[message.channel];
    if (message.tensor == TensorKind::Gradient && apart != kNoId) message.channel = apart;
  }
  return split;
}

/// By channel: whether one of its ends blocks. Its messages stay where they are, in their order.
std::vector<bool> blocking_channels(const Program& program) {
  std::vector<bool> blocking(program.channels.size(), false);
  for (const Queue& queue : program.queues) {
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program.instructions[id];
      if (instruction.opcode != Opcode::Send && instruction.opcode != Opcode::Receive) continue;
      blocking[program.messages[instruction.subject].channel] = true;
    }
  }
  return blocking;
}

class Separation {
 public:
  explicit Separation(Program& program)
      : program_(program), blocking_(blocking_channels(program)) {}

  int run() {
    const std::size_t queues = program_.queues.size();
    for (std::size_t q = 0; q < queues; ++q) {
      if (program_.queues[q].stream == StreamKind::Compute) separate(q);
    }
    return moved_;
  }

 private:
  void separate(std::size_t q) {
    const std::vector<InstructionId> order = program_.queues[q].order;
    std::vector<InstructionId> left;
    left.reserve(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const InstructionId id = order[i];
      const Opcode opcode = program_.instructions[id].opcode;
      if (opcode != Opcode::PostSend && opcode != Opcode::PostReceive) {
        left.push_back(id);
        continue;
      }
      const Message& message = program_.messages[program_.instructions[id].subject];
      if (blocking_[message.channel]) {
        left.push_back(id);
        continue;
      }
      std::vector<InstructionId>& own = queue_of(q, opcode, message.channel);
      const bool takes = !left.empty() && opcode == Opcode::PostReceive &&
                         is_allocate_of(left.back(), message.arriving);
      own.push_back(id);
      if (takes) {
        own.push_back(left.back());
        left.pop_back();
      }
      if (!left.empty()) program_.events.push_back({left.back(), id});
      ++moved_;
    }
    program_.queues[q].order = std::move(left);
  }

  [[nodiscard]] bool is_allocate_of(InstructionId id, BufferId buffer) const {
    const Instruction& instruction = program_.instructions[id];
    return instruction.opcode == Opcode::Allocate && instruction.subject == buffer;
  }

  std::vector<InstructionId>& queue_of(std::size_t compute, Opcode opcode, std::uint32_t channel) {
    const auto stream = opcode == Opcode::PostSend ? StreamKind::Send : StreamKind::Receive;
    const auto [found, inserted] =
        own_.try_emplace(std::tuple(compute, stream, channel), program_.queues.size());
    if (inserted) {
      program_.queues.push_back(
          {program_.queues[compute].device, stream, static_cast<int>(channel), {}});
    }
    return program_.queues[found->second].order;
  }

  Program& program_;
  std::vector<bool> blocking_;
  std::map<std::tuple<std::size_t, StreamKind, std::uint32_t>, std::size_t> own_;
  int moved_ = 0;
};

PassResult run(Program program, const PassOptions&) {
  const int channels = split_channels(program);
  const int moved = Separation(program).run();
  return {std::move(program), moved + channels, {}};
}

}  // namespace

ProgramPass separate_streams_pass() {
  return {"separate-streams", "sends and receives run on streams of their own, by direction",
          "posts taken off the compute stream", run};
}

}  // namespace plansearch
