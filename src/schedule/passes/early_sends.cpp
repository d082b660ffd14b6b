// SPDX-License-Identifier: Apache-2.0
// Computes:   a program that sends a message as soon as it has been made.
// Source:     alpa-projects/alpa@b8078a9f runtime_emitter.py (overlap-friendly emitter).
// Assumes:    the messages of a channel keep their order: none overtakes the one before it.
// Units:      none.
// Checked by: tests/unit/schedule/passes_test.cpp
#include <algorithm>

#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {
namespace {

PassResult run(Program program, const PassOptions&) {
  const std::vector<Place> places = places_of(program);
  const std::vector<MessageSites> sites = sites_of(program);
  std::vector<InstructionId> producer_of(program.instructions.size(), kNoId);  // by post elsewhere
  std::vector<QueueMove> moves;
  int moved = 0;
  for (const auto& messages : sent_by_channel(program)) {
    std::uint32_t earliest = 0;
    for (const MessageId message : messages) {
      const InstructionId send = sites[message].send;
      const InstructionId producer = program.messages[message].producer;
      if (program.instructions[send].opcode != Opcode::PostSend || producer == kNoId) {
        earliest = std::max(earliest, places[send].position);
        continue;
      }
      if (places[send].queue != places[producer].queue) {
        producer_of[send] = producer;
        continue;
      }
      earliest = std::max(earliest, places[producer].position);
      if (earliest + 1 >= places[send].position) {
        earliest = places[send].position;
        continue;
      }
      moves.push_back({send, earliest, QueueSide::After});
      ++moved;
    }
  }
  for (Event& event : program.events) {
    const InstructionId producer = producer_of[event.before];
    if (producer == kNoId || event.after == producer) continue;
    if (places[event.after].queue != places[producer].queue) continue;
    if (places[event.after].position > places[producer].position) ++moved;
    event.after = producer;
  }
  move_in_queues(program, moves);
  return {std::move(program), moved, {}};
}

}  // namespace

ProgramPass early_sends_pass() {
  return {"early-sends", "a message is sent when it has been made, not when it is needed",
          "sends issued earlier", run};
}

}  // namespace plansearch
