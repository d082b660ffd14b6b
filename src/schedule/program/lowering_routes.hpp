// SPDX-License-Identifier: Apache-2.0
// Which pieces of an order stand where, and by what boundary their results travel; private to
// lowering.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "schedule/order/compute_order.hpp"
#include "schedule/program/program.hpp"
#include "schedule/templates/task_template.hpp"

namespace plansearch {

struct PlacedStep {
  int device = 0;
  std::size_t stage = 0;
  ComputeStep step;
};

/// One direction of a boundary between virtual stages, for what one pass makes.
struct Way {
  std::size_t boundary = 0;
  Phase direction = Phase::Forward;
  NodeId from = 0;  ///< makes what travels
  NodeId to = 0;    ///< reads it
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
  /// All of them, by boundary.
  [[nodiscard]] const std::vector<Way>& ways() const { return ways_; }

  [[nodiscard]] const TaskTemplate& nodes() const { return template_; }
  [[nodiscard]] NodeId node_of(const PlacedStep& placed) const {
    return numbers_.of(placed.stage, placed.step);
  }
  /// The route of a message, by the key of its producer.
  [[nodiscard]] const Way& way_of(const InstructionKey& key) const {
    return *way_out_[numbers_.of(static_cast<std::size_t>(key.group), key.phase, key.pass)];
  }
  /// Where a piece stands in a table by node and micro-batch, of so many entries.
  [[nodiscard]] std::size_t run_index(NodeId node, int micro_batch) const {
    return node * micro_batches_ + static_cast<std::size_t>(micro_batch);
  }
  [[nodiscard]] std::size_t run_count() const { return template_.size() * micro_batches_; }

 private:
  const ComputeOrder& order_;
  std::size_t micro_batches_;
  TaskTemplate template_;
  PipelineNodes numbers_;
  std::vector<std::size_t> stage_of_;  ///< by device and chunk
  std::vector<Way> ways_;
  std::vector<std::optional<Way>> way_in_;   ///< by node
  std::vector<std::optional<Way>> way_out_;  ///< by node
};

[[nodiscard]] InstructionKey key_of(const PlacedStep& placed);

/// Appends to a program; queue d is the compute queue of device d.
InstructionId emit(Program& program, std::size_t queue, const InstructionKey& key, Opcode opcode,
                   std::uint32_t duration, std::uint32_t subject);
BufferId add_buffer(Program& program, int device, BufferKind kind, Bytes bytes);

}  // namespace plansearch
