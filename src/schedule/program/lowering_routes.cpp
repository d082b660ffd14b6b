// SPDX-License-Identifier: Apache-2.0
// Computes:   the places of pieces and the routes of their results.
// Source:     the template of the order.
// Assumes:    neighbours on one device hand over without a message.
// Units:      none.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include "schedule/program/lowering_routes.hpp"

#include <algorithm>
#include <tuple>

namespace plansearch {

OrderWays::OrderWays(const ComputeOrder& order)
    : order_(order),
      micro_batches_(static_cast<std::size_t>(order.micro_batches)),
      template_(pipeline_template(order)),
      numbers_(order),
      stage_of_(stages_by_place(order)),
      way_in_(template_.size()),
      way_out_(template_.size()) {
  for (NodeId to = 0; to < template_.size(); ++to) {
    for (const NodeId from : template_.inputs(to)) {
      if (template_.device(from) == template_.device(to)) continue;
      const TemplateNode& made = template_.node(from);
      const auto stage = static_cast<std::size_t>(made.group);
      const bool forward = made.phase == Phase::Forward;
      const Way way{forward ? stage : stage - 1, made.phase, from, to};
      way_in_[to] = way_out_[from] = way;
      ways_.push_back(way);
    }
  }
  std::sort(ways_.begin(), ways_.end(), [](const Way& a, const Way& b) {
    return std::tie(a.boundary, a.direction, a.from) < std::tie(b.boundary, b.direction, b.from);
  });
}

PlacedStep OrderWays::place(std::size_t device, const ComputeStep& step) const {
  const std::size_t slot = device * static_cast<std::size_t>(order_.chunks());
  return {static_cast<int>(device), stage_of_[slot + static_cast<std::size_t>(step.chunk)], step};
}

std::optional<Way> OrderWays::way_in(const PlacedStep& placed) const {
  return way_in_[node_of(placed)];
}

std::optional<Way> OrderWays::way_out(const PlacedStep& placed) const {
  return way_out_[node_of(placed)];
}

InstructionKey key_of(const PlacedStep& placed) {
  return {static_cast<int>(placed.stage),
          0,
          placed.step.pass,
          placed.step.micro_batch,
          placed.step.chunk,
          placed.step.phase};
}

InstructionId emit(Program& program, std::size_t queue, const InstructionKey& key, Opcode opcode,
                   std::uint32_t duration, std::uint32_t subject) {
  const auto id = static_cast<InstructionId>(program.instructions.size());
  program.instructions.push_back({key, opcode, duration, subject});
  program.queues[queue].order.push_back(id);
  return id;
}

BufferId add_buffer(Program& program, int device, BufferKind kind, Bytes bytes) {
  program.buffers.push_back({device, kind, bytes});
  return static_cast<BufferId>(program.buffers.size() - 1);
}

}  // namespace plansearch
