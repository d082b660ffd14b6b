// SPDX-License-Identifier: Apache-2.0
// Look-ups and moves in queues that passes share; private to passes/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/program/program.hpp"

namespace plansearch {

struct Place {
  std::uint32_t queue = kNoId;  ///< kNoId: in no queue
  std::uint32_t position = 0;
};
/// By instruction.
[[nodiscard]] std::vector<Place> places_of(const Program& program);

/// The instructions of one message, where there are any.
struct MessageSites {
  InstructionId send = kNoId;     ///< Send or PostSend
  InstructionId receive = kNoId;  ///< Receive or PostReceive
  InstructionId sent = kNoId;     ///< WaitSent
  InstructionId arrived = kNoId;  ///< WaitArrived
};
/// By message.
[[nodiscard]] std::vector<MessageSites> sites_of(const Program& program);

/// By channel: its messages in the order in which they are sent.
[[nodiscard]] std::vector<std::vector<MessageId>> sent_by_channel(const Program& program);

/// The Allocate of the buffer that a PostReceive fills, or the Free of the one that a WaitSent
/// gives back, where it stands beside it; kNoId elsewhere.
[[nodiscard]] InstructionId beside(const Program& program, const Place& place, Opcode opcode,
                                   BufferId buffer);

/// Makes a post of a Send or Receive; the wait that ends it, in no queue yet.
[[nodiscard]] InstructionId split_off_wait(Program& program, InstructionId id);
/// Events recorded by what has become a post are recorded by its wait. By instruction: the wait,
/// kNoId where there is none.
void await_at_waits(Program& program, const std::vector<InstructionId>& wait_of);

/// Events recorded by instructions that leave their place are recorded by what stands before them
/// instead. By instruction: whether it leaves. Queues are as before.
void hand_over_events(Program& program, const std::vector<bool>& leaves);

/// Bytes of so many buffers beyond one, of the largest of the messages; no more than there are.
[[nodiscard]] Bytes bytes_of_slots(const Program& program, const std::vector<MessageId>& messages,
                                   BufferId Message::*side, std::size_t buffers);

enum class QueueSide : std::uint8_t { Before, After };
/// `id` is to stand next to what stands at `anchor` in the same queue.
struct QueueMove {
  InstructionId id = kNoId;
  std::uint32_t anchor = 0;
  QueueSide side = QueueSide::After;
};
/// Several at one place keep their sequence.
void move_in_queues(Program& program, std::span<const QueueMove> moves);

}  // namespace plansearch
