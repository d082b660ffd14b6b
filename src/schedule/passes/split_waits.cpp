// SPDX-License-Identifier: Apache-2.0
// Computes:   a program in which every blocking send and receive is a post and a wait of its own.
// Source:     MPI_Isend, MPI_Irecv and MPI_Wait; NCCL calls with events.
// Assumes:    nothing; by itself it changes no time.
// Units:      none.
// Checked by: tests/unit/schedule/passes_test.cpp
#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

PassResult run(Program program, const PassOptions&) {
  int moved = 0;
  std::vector<InstructionId> wait_of(program.instructions.size(), kNoId);
  for (Queue& queue : program.queues) {
    std::vector<InstructionId> order;
    order.reserve(2 * queue.order.size());
    for (const InstructionId id : queue.order) {
      order.push_back(id);
      const Opcode opcode = program.instructions[id].opcode;
      if (opcode != Opcode::Send && opcode != Opcode::Receive) continue;
      order.push_back(wait_of[id] = split_off_wait(program, id));
      ++moved;
    }
    queue.order = std::move(order);
  }
  await_at_waits(program, wait_of);
  return {std::move(program), moved, {}};
}

}  // namespace

ProgramPass split_waits_pass() {
  return {"split-waits", "sends and receives are posted, and awaited apart",
          "sends and receives split", run};
}

}  // namespace plansearch
