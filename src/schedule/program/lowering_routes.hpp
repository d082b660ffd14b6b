// SPDX-License-Identifier: Apache-2.0
// Which pieces of an order stand where, and by what boundary their results travel; private to
// lowering.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "schedule/order/compute_order.hpp"
#include "schedule/program/program.hpp"

namespace plansearch {

struct PlacedStep {
  int device = 0;
  std::size_t stage = 0;
  ComputeStep step;
};

/// One direction of a boundary between virtual stages.
struct Way {
  std::size_t boundary = 0;
  Phase direction = Phase::Forward;
};

class OrderWays {
 public:
  explicit OrderWays(const ComputeOrder& order);

  [[nodiscard]] const ComputeOrder& order() const { return order_; }
  [[nodiscard]] std::size_t micro_batches() const { return micro_batches_; }
  [[nodiscard]] PlacedStep place(std::size_t device, const ComputeStep& step) const;

  /// By what way the input of a step comes from another device, or its result leaves for one.
  [[nodiscard]] std::optional<Way> way_in(const PlacedStep& placed) const;
  [[nodiscard]] std::optional<Way> way_out(const PlacedStep& placed) const;
  /// The way over the upper or the lower boundary of a stage, where it leads to another device.
  [[nodiscard]] std::optional<Way> way_at(const PlacedStep& placed, bool upper) const;
  [[nodiscard]] bool at_end(const PlacedStep& placed, bool upper) const;

  [[nodiscard]] static std::size_t index_of(const Way& way);
  /// Where a piece stands in a table by stage, micro-batch and phase, of so many entries.
  [[nodiscard]] std::size_t run_index(std::size_t stage, int micro_batch, Phase phase) const;
  [[nodiscard]] std::size_t run_count() const;

 private:
  const ComputeOrder& order_;
  std::size_t micro_batches_;
  std::vector<std::size_t> stage_of_;  ///< by device and chunk
};

[[nodiscard]] InstructionKey key_of(const PlacedStep& placed);

/// Appends to a program; queue d is the compute queue of device d.
InstructionId emit(Program& program, std::size_t queue, const InstructionKey& key, Opcode opcode,
                   std::uint32_t duration, std::uint32_t subject);
BufferId add_buffer(Program& program, int device, BufferKind kind, Bytes bytes);

}  // namespace plansearch
