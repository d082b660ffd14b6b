// SPDX-License-Identifier: Apache-2.0
// Computes:   a program whose devices reduce gradients on a stream of their own, from their last
//             piece on, while they still send.
// Source:     bucketed reductions on a stream of their own (PyTorch DDP, VLDB 2020).
// Assumes:    optimizers wait for the reduction of their device; sums over several devices stay.
// Units:      none.
// Checked by: tests/unit/schedule/passes_test.cpp
#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

/// The next instruction of the end of the step, which waits for the reduction at `position`.
InstructionId follower(const Program& program, const Queue& queue, std::size_t position) {
  for (std::size_t i = position + 1; i < queue.order.size(); ++i) {
    const Opcode opcode = program.at(queue, i).opcode;
    if (opcode == Opcode::Collective || opcode == Opcode::Apply) return queue.order[i];
  }
  return kNoId;
}

/// The last piece before it.
InstructionId last_run(const Program& program, const Queue& queue, std::size_t position) {
  while (position-- > 0) {
    if (program.at(queue, position).opcode == Opcode::Run) return queue.order[position];
  }
  return kNoId;
}

PassResult run(Program program, const PassOptions&) {
  int moved = 0;
  const std::size_t queues = program.queues.size();
  for (std::size_t q = 0; q < queues; ++q) {
    if (program.queues[q].stream != StreamKind::Compute) continue;
    for (std::size_t i = 0; i < program.queues[q].order.size(); ++i) {
      const Queue& queue = program.queues[q];
      const InstructionId id = queue.order[i];
      const Instruction& instruction = program.instructions[id];
      if (instruction.opcode != Opcode::Collective || instruction.subject != kNoId) continue;
      const InstructionId after = last_run(program, queue, i);
      const InstructionId before = follower(program, queue, i);
      if (after == kNoId || before == kNoId) continue;
      for (Message& message : program.messages) {
        if (message.producer == id) message.producer = after;
      }
      program.events.push_back({after, id});
      program.events.push_back({id, before});
      program.queues.push_back({queue.device, StreamKind::Collective, 0, {id}});
      auto& order = program.queues[q].order;
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
      ++moved;
      break;
    }
  }
  return {std::move(program), moved, {}};
}

}  // namespace

ProgramPass overlap_reductions_pass() {
  return {"overlap-reductions", "gradients are reduced beside the sends and pieces that follow",
          "reductions on a stream of their own", run};
}

}  // namespace plansearch
