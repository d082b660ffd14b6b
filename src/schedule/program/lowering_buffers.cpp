// SPDX-License-Identifier: Apache-2.0
// Computes:   allocations and frees around the pieces of a program.
// Source:     what a piece keeps, sends and receives (PipelineBytes).
// Assumes:    messages that leave have a buffer of their own where receives are listed.
// Units:      bytes.
// Checked by: tests/unit/schedule/simulated_program_test.cpp
#include "schedule/program/lowering_buffers.hpp"

namespace plansearch {

Bytes BufferWriter::for_weights(std::size_t stage) const {
  const PipelineBytes& bytes = *options_.bytes;
  if (ways_.order().weight_gradients != WeightGradients::Separate) return {};
  return bytes.for_weights.empty() ? bytes.saved[stage] : bytes.for_weights[stage];
}

std::size_t BufferWriter::kept_index(const PlacedStep& placed, Phase until) const {
  const auto micro_batch = static_cast<std::size_t>(placed.step.micro_batch);
  const std::size_t piece = placed.stage * ways_.micro_batches() + micro_batch;
  return 2 * piece + (until == Phase::Backward ? 0 : 1);
}

void BufferWriter::allocate(const PlacedStep& placed) {
  const auto queue = static_cast<std::size_t>(placed.device);
  const auto way = ways_.way_out(placed);
  if (way && messages_.in_order()) {
    const BufferId buffer =
        add_buffer(program_, placed.device, BufferKind::Leaving, messages_.bytes_of(*way));
    program_.messages[messages_.message(*way, placed.step.micro_batch)].leaving = buffer;
    emit(program_, queue, key_of(placed), Opcode::Allocate, 0, buffer);
  }
  if (!ways_.order().keeps(placed.step)) return;
  if (kept_.empty()) {
    kept_.assign(2 * ways_.order().pipeline.size() * ways_.micro_batches(), kNoId);
  }
  const Bytes late = for_weights(placed.stage);
  const Bytes early = options_.bytes->saved[placed.stage] - late;
  const auto keep = [&](Phase until, BufferKind kind, Bytes bytes) {
    if (bytes <= Bytes(0)) return;
    const BufferId buffer = add_buffer(program_, placed.device, kind, bytes);
    kept_[kept_index(placed, until)] = buffer;
    emit(program_, queue, key_of(placed), Opcode::Allocate, 0, buffer);
  };
  keep(Phase::Backward, BufferKind::Activation, early);
  keep(Phase::WeightGradient, BufferKind::ForWeights, late);
}

void BufferWriter::release(const PlacedStep& placed) {
  const auto queue = static_cast<std::size_t>(placed.device);
  if (const auto way = ways_.way_in(placed)) {
    const MessageId id = messages_.message(*way, placed.step.micro_batch);
    const BufferId arrived = program_.messages[id].arriving;
    if (arrived != kNoId) emit(program_, queue, key_of(placed), Opcode::Free, 0, arrived);
  }
  if (placed.step.phase == Phase::Forward || kept_.empty()) return;
  const BufferId kept = kept_[kept_index(placed, placed.step.phase)];
  if (kept != kNoId) emit(program_, queue, key_of(placed), Opcode::Free, 0, kept);
}

}  // namespace plansearch
