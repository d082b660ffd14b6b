// SPDX-License-Identifier: Apache-2.0
// Private to lowering: the places of pieces and the paths of their results, the channels, sends and
// receives of a program that is being made, and its buffers.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "schedule/order/compute_order.hpp"
#include "schedule/program/lowering.hpp"
#include "schedule/program/program.hpp"
#include "schedule/templates/task_template.hpp"

namespace plansearch {

struct PlacedStep {
  int device = 0;
  std::size_t stage = 0;
  ComputeStep step;
};

/// One direction of a boundary between virtual stages, for what one pass makes.
struct Path {
  std::size_t boundary = 0;
  Phase direction = Phase::Forward;
  NodeId from = 0;  ///< makes what travels
  NodeId to = 0;    ///< reads it
};

class OrderPaths {
 public:
  explicit OrderPaths(const ComputeOrder& order);

  [[nodiscard]] const ComputeOrder& order() const { return order_; }
  [[nodiscard]] std::size_t micro_batches() const { return micro_batches_; }
  [[nodiscard]] PlacedStep place(std::size_t device, const ComputeStep& step) const;

  /// By what path the input of a step comes from another device, or its result leaves for one.
  [[nodiscard]] std::optional<Path> path_in(const PlacedStep& placed) const;
  [[nodiscard]] std::optional<Path> path_out(const PlacedStep& placed) const;
  /// All of them, by boundary.
  [[nodiscard]] const std::vector<Path>& paths() const { return paths_; }

  [[nodiscard]] const TaskTemplate& nodes() const { return template_; }
  [[nodiscard]] NodeId node_of(const PlacedStep& placed) const {
    return numbers_.of(placed.stage, placed.step);
  }
  /// The path of a message, by the piece that made it.
  [[nodiscard]] const Path& path_of(const InstructionKey& key) const {
    return *path_out_[numbers_.of(static_cast<std::size_t>(key.group), key.phase, key.pass)];
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
  std::vector<Path> paths_;
  std::vector<std::optional<Path>> path_in_;   ///< by node
  std::vector<std::optional<Path>> path_out_;  ///< by node
};

[[nodiscard]] InstructionKey key_of(const PlacedStep& placed);

/// Appends to a program; queue d is the compute queue of device d.
InstructionId emit(Program& program, std::size_t queue, const InstructionKey& key, Opcode opcode,
                   std::uint32_t duration, std::uint32_t subject);
BufferId add_buffer(Program& program, int device, BufferKind kind, Bytes bytes);

class MessageWriter {
 public:
  /// Boundaries between different devices get a channel in each direction, the same for the same
  /// devices.
  MessageWriter(const OrderPaths& paths, const LoweringOptions& options, Program& program);

  /// The message of a micro-batch by a path, made where there is none yet.
  MessageId message(const Path& path, int micro_batch);
  void send(const Path& path, int micro_batch);
  void receive(const Path& path, const PlacedStep& placed);

  [[nodiscard]] bool in_order() const { return options_.sends.receives == Receives::InOrder; }
  [[nodiscard]] Bytes bytes_of(const Path& path) const;

 private:
  void open_channels();
  [[nodiscard]] std::vector<ResourceUse> uses_of(const Path& path) const;
  std::size_t receive_queue(std::uint32_t channel);

  const OrderPaths& paths_;
  const LoweringOptions& options_;
  Program& program_;
  std::vector<MessageId> messages_;                         ///< by node and micro-batch
  std::vector<std::uint32_t> channel_of_;                   ///< by node
  std::vector<std::optional<std::size_t>> receive_queues_;  ///< by channel
};

class BufferWriter {
 public:
  BufferWriter(const OrderPaths& paths, const LoweringOptions& options, MessageWriter& messages,
               Program& program)
      : paths_(paths), options_(options), messages_(messages), program_(program) {}

  /// Before a piece: room for what it sends and, before a forward, for what it keeps until the
  /// input gradient and until the weight gradient.
  void allocate(const PlacedStep& placed);
  /// After it: what it received, and what was kept for it.
  void release(const PlacedStep& placed);

 private:
  [[nodiscard]] Bytes for_weights(std::size_t stage) const;
  [[nodiscard]] std::size_t kept_index(const PlacedStep& placed, Phase until) const;

  const OrderPaths& paths_;
  const LoweringOptions& options_;
  MessageWriter& messages_;
  Program& program_;
  std::vector<BufferId> kept_;  ///< by stage, micro-batch and what frees it
};

}  // namespace plansearch
