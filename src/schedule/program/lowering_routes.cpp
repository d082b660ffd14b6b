// SPDX-License-Identifier: Apache-2.0
// Computes:   the places of pieces and the ways of their results.
// Source:     the places of the order.
// Assumes:    neighbours on one device hand over without a message.
// Units:      none.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include "schedule/program/lowering_routes.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kPhases = 3;

std::vector<std::size_t> stages_by_chunk(const ComputeOrder& order) {
  std::vector<std::size_t> stages(order.pipeline.size());
  for (std::size_t k = 0; k < order.pipeline.size(); ++k) {
    const StagePlace& place = order.pipeline[k];
    stages[static_cast<std::size_t>(place.device * order.chunks() + place.chunk)] = k;
  }
  return stages;
}

}  // namespace

OrderWays::OrderWays(const ComputeOrder& order)
    : order_(order),
      micro_batches_(static_cast<std::size_t>(order.micro_batches)),
      stage_of_(stages_by_chunk(order)) {}

PlacedStep OrderWays::place(std::size_t device, const ComputeStep& step) const {
  const std::size_t slot = device * static_cast<std::size_t>(order_.chunks());
  return {static_cast<int>(device), stage_of_[slot + static_cast<std::size_t>(step.chunk)], step};
}

std::optional<Way> OrderWays::way_in(const PlacedStep& placed) const {
  if (placed.step.phase == Phase::WeightGradient) return std::nullopt;
  return way_at(placed, placed.step.phase == Phase::Backward);
}

std::optional<Way> OrderWays::way_out(const PlacedStep& placed) const {
  if (placed.step.phase == Phase::WeightGradient) return std::nullopt;
  return way_at(placed, placed.step.phase == Phase::Forward);
}

std::optional<Way> OrderWays::way_at(const PlacedStep& placed, bool upper) const {
  if (at_end(placed, upper)) return std::nullopt;
  const Way way{upper ? placed.stage : placed.stage - 1, placed.step.phase};
  const int low = order_.pipeline[way.boundary].device;
  if (low == order_.pipeline[way.boundary + 1].device) return std::nullopt;
  return way;
}

bool OrderWays::at_end(const PlacedStep& placed, bool upper) const {
  return !order_.neighbour(placed.stage, upper ? 1 : -1);
}

std::size_t OrderWays::index_of(const Way& way) {
  return 2 * way.boundary + (way.direction == Phase::Forward ? 0 : 1);
}

std::size_t OrderWays::run_index(std::size_t stage, int micro_batch, Phase phase) const {
  const std::size_t piece = stage * micro_batches_ + static_cast<std::size_t>(micro_batch);
  return piece * kPhases + static_cast<std::size_t>(phase);
}

std::size_t OrderWays::run_count() const {
  return order_.pipeline.size() * micro_batches_ * kPhases;
}

InstructionKey key_of(const PlacedStep& placed) {
  return {static_cast<int>(placed.stage),
          0,
          0,
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
