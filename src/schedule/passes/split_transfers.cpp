// SPDX-License-Identifier: Apache-2.0
// Computes:   a program in which blocking sends and receives are a post and a wait each: every one by
//             itself, or those that stand together as one group that is awaited together.
// Source:     MPI_Isend, MPI_Irecv and MPI_Wait; NCCL calls with events; ncclGroupStart and
//             ncclGroupEnd; NVIDIA/Megatron-LM@d98e8a64 (2026-08-22) p2p_communication.py
//             _batched_p2p_ops: torch.distributed.batch_isend_irecv, one call for what a rank sends
//             to and receives from its neighbours between two pieces.
// Assumes:    to split changes no time by itself; a group ends when all of its messages have
//             arrived; they travel at the same time, those of one channel one after the other.
// Units:      bytes.
// Checked by: tests/unit/schedule/passes_test.cpp
#include <algorithm>
#include <span>

#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

PassResult split_all(Program program, const PassOptions&) {
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

class GroupTransfers {
 public:
  explicit GroupTransfers(Program& program)
      : program_(program),
        wait_of_(program.instructions.size(), kNoId),
        memory_(static_cast<std::size_t>(program.devices)) {}

  PassResult run() {
    for (Queue& queue : program_.queues) group_in(queue);
    await_at_waits(program_, wait_of_);
    return {std::move(program_), moved_, std::move(memory_)};
  }

 private:
  [[nodiscard]] bool blocks(InstructionId id) const {
    const Opcode opcode = program_.instructions[id].opcode;
    return opcode == Opcode::Send || opcode == Opcode::Receive;
  }
  void group_in(Queue& queue) {
    const std::span<const InstructionId> all = queue.order;
    std::vector<InstructionId> order;
    order.reserve(2 * all.size());
    for (std::size_t i = 0; i < all.size();) {
      const std::size_t end = blocks(all[i]) ? group_end(all, i) : i + 1;
      if (end == i + 1) {
        order.push_back(all[i]);
      } else {
        append_group(all.subspan(i, end - i), queue.device, order);
      }
      i = end;
    }
    queue.order = std::move(order);
  }

  /// Behind the last send or receive before anything but buffers comes.
  [[nodiscard]] std::size_t group_end(std::span<const InstructionId> order, std::size_t i) const {
    std::size_t end = i + 1;
    for (std::size_t k = end; k < order.size(); ++k) {
      if (blocks(order[k])) {
        end = k + 1;
      } else if (!is_about_buffer(program_.instructions[order[k]].opcode)) {
        break;
      }
    }
    return end;
  }

  /// A buffer that a message fills is taken right before its post; one that it empties goes after
  /// its wait.
  void append_group(std::span<const InstructionId> group, int device,
                    std::vector<InstructionId>& order) {
    std::vector<InstructionId> waits;
    Bytes held, most_one_by_one, all_taken;
    for (const InstructionId id : group) {
      if (blocks(id)) {
        order.push_back(id);
        waits.push_back(wait_of_[id] = split_off_wait(program_, id));
        ++moved_;
        continue;
      }
      const Bytes bytes = program_.buffers[program_.instructions[id].subject].bytes;
      const bool takes = program_.instructions[id].opcode == Opcode::Allocate;
      (takes ? order : waits).push_back(id);
      if (takes) all_taken += bytes;
      held += takes ? bytes : Bytes(0) - bytes;
      most_one_by_one = std::max(most_one_by_one, held);
    }
    order.insert(order.end(), waits.begin(), waits.end());
    Bytes& stated = memory_[static_cast<std::size_t>(device)];
    stated = std::max(stated, all_taken - most_one_by_one);
  }

  Program& program_;
  std::vector<InstructionId> wait_of_;  ///< by instruction, of those that blocked
  std::vector<Bytes> memory_;
  int moved_ = 0;
};

PassResult group_all(Program program, const PassOptions&) {
  return GroupTransfers(program).run();
}

}  // namespace

ProgramPass split_waits_pass() {
  return {"split-waits", "sends and receives are posted, and awaited apart",
          "sends and receives split", split_all};
}

ProgramPass group_transfers_pass() {
  return {"group-transfers", "sends and receives that stand together are one group",
          "sends and receives in groups", group_all};
}

}  // namespace plansearch
