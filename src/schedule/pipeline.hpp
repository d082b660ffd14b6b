// SPDX-License-Identifier: Apache-2.0
// One pipeline to be scheduled: its shape, the durations of its pieces, and its legality.
//
// A *virtual stage* is one model chunk on one device. Micro-batches pass the virtual stages
// 0, 1, ..., stages * chunks - 1 forward and in reverse order backward; virtual stage k is chunk
// k / stages of device k % stages (looped placement).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plansearch/infeasible.hpp"
#include "plansearch/schedule_kind.hpp"
#include "schedule/ticks.hpp"

namespace plansearch {

enum class TransferMode : std::uint8_t {
  /// Every device sends activations and gradients on two streams of their own, each in order, one
  /// message at a time; computing goes on meanwhile.
  Asynchronous,
  /// The sender computes nothing while its message travels.
  Blocking,
};

struct PipelineShape {
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int stages = 1;  ///< devices in a row (one representative per stage)
  int micro_batches = 1;
  int chunks = 1;  ///< virtual stages per device; more than one only when interleaved
  /// Interleaved: how many micro-batches in a row pass one chunk. Absent: as many as stages.
  std::optional<int> group = std::nullopt;
  TransferMode transfers = TransferMode::Asynchronous;

  [[nodiscard]] int virtual_stages() const { return stages * chunks; }
  [[nodiscard]] int group_size() const { return group.value_or(stages); }
  bool operator==(const PipelineShape&) const = default;
};

/// Why this schedule cannot run in this shape; nothing when it can. Interleaved follows Megatron:
/// the last group of micro-batches must be full or hold at least `stages`.
[[nodiscard]] std::optional<Infeasible> obstacle_of(const PipelineShape& shape);

/// Durations, indexed by virtual stage; transfers by boundary (k lies between virtual stages k and
/// k + 1, so there are virtual_stages - 1 of them). Only views: the caller keeps the arrays.
struct PipelineTimes {
  std::span<const Ticks> forward;
  std::span<const Ticks> backward;         ///< input gradient; with weight gradient if not split
  std::span<const Ticks> weight_gradient;  ///< empty: contained in `backward`
  std::span<const Ticks> activation_transfer;  ///< boundary k, forward direction
  std::span<const Ticks> gradient_transfer;    ///< boundary k, backward direction
};

/// The same with arrays of its own.
struct PipelineDurations {
  std::vector<Ticks> forward;
  std::vector<Ticks> backward;
  std::vector<Ticks> weight_gradient;
  std::vector<Ticks> activation_transfer;
  std::vector<Ticks> gradient_transfer;

  [[nodiscard]] PipelineTimes view() const {
    return {forward, backward, weight_gradient, activation_transfer, gradient_transfer};
  }
  bool operator==(const PipelineDurations&) const = default;
};

/// Equal stages: durations of one virtual stage and of one transfer.
struct UniformTimes {
  Ticks forward = 0;
  Ticks backward = 0;  ///< full backward
  Ticks transfer = 0;
  bool operator==(const UniformTimes&) const = default;
};
[[nodiscard]] PipelineDurations uniform_durations(const PipelineShape& shape, UniformTimes times);

/// Throws InternalError when the arrays do not fit the shape or a duration is negative.
void check_times(const PipelineShape& shape, const PipelineTimes& times);

}  // namespace plansearch
