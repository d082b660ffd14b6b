// SPDX-License-Identifier: Apache-2.0
// List scheduling with weight gradients as filler, under a memory cap.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/order/compute_order.hpp"

namespace plansearch {

/// The phase that a device runs when both are ready.
enum class Prefer : std::uint8_t { Backward, Forward };
/// When a weight gradient may fill a gap.
enum class Filler : std::uint8_t {
  Always,
  WhereItFits,  ///< not where something is known to arrive before it would end
};
/// How many micro-batches a device may run ahead of its backwards.
enum class Ahead : std::uint8_t {
  Memory,     ///< as many as fit
  RoundTrip,  ///< enough to hide the way to the last stage and back
};

struct ListScheduling {
  Prefer prefer = Prefer::Backward;
  Filler filler = Filler::Always;
  Ahead ahead = Ahead::Memory;
};

/// One step of the virtual stage; micro-batches take their turns.
struct ListPiece {
  std::uint32_t stage = 0;
  Phase phase = Phase::Forward;
  bool operator==(const ListPiece&) const = default;
};

/// A list before which and after which as many pieces of every kind are under way, so that it can
/// run any number of times.
struct ListBlock {
  std::size_t begin = 0;
  std::size_t end = 0;
  int micro_batches = 0;
  Ticks time = 0;  ///< from the start of its first piece to the start of the piece behind it
};

/// Pieces in the sequence in which they start.
struct ListOrder {
  int micro_batches = 0;
  std::vector<ListPiece> pieces;
  Ticks makespan = 0;
  Ticks span = 0;  ///< longest time from the first start to the last end of a device
  int peak = 0;    ///< most chunks that a device keeps
  std::vector<ListBlock> blocks;

  /// The pieces with a block `times` times.
  [[nodiscard]] std::vector<ListPiece> repeated(const ListBlock& block, int times) const;
};

/// Every device runs what is there when it is free. A micro-batch is let onto a device only when
/// all its chunks fit under the cap, so that the order always ends. The times are exact where no
/// message takes longer than a piece. Nothing when it would end after `latest`.
[[nodiscard]] std::optional<ListOrder> list_order(const PipelineShape& shape,
                                                  const UniformTimes& times,
                                                  const ListScheduling& rule, Ticks latest);

/// The pieces of every device.
[[nodiscard]] ComputeOrder order_of_pieces(const PipelineShape& shape,
                                           const std::vector<ListPiece>& pieces);

/// The same order with every whole backward split into input and weight gradient.
[[nodiscard]] ComputeOrder split(ComputeOrder order);

}  // namespace plansearch
