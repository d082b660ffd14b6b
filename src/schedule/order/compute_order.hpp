// SPDX-License-Identifier: Apache-2.0
// The pieces that every device computes, in sequence; nothing about communication yet.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/order/stage_places.hpp"
#include "schedule/simulation/pipeline.hpp"

namespace plansearch {

enum class Phase : std::uint8_t {
  Forward,
  Backward,  ///< input gradient; with the weight gradient where that is fused
  WeightGradient,
};

struct ComputeStep {
  int chunk = 0;
  int micro_batch = 0;
  Phase phase = Phase::Forward;
  /// One piece with the step before it: it starts when all its steps have their inputs and hands
  /// everything on when it ends. A backward and its weight gradient make a full backward; with a
  /// forward before them the two overlap.
  bool joined = false;
  int pass = 0;  ///< of a forward: which one of several of its micro-batch
  auto operator<=>(const ComputeStep&) const = default;
};

enum class WeightGradients : std::uint8_t { Fused, Separate };

struct ComputeOrder {
  std::vector<StagePlace> pipeline;  ///< by virtual stage, in the order micro-batches pass them
  int replicas = 1;                  ///< of the network, one after the other in `pipeline`
  int micro_batches = 0;  ///< dealt out evenly: the first replica takes the first of them
  /// Forward passes of a micro-batch through all virtual stages; the last one is differentiated.
  int forwards = 1;
  WeightGradients weight_gradients = WeightGradients::Fused;
  std::vector<std::vector<ComputeStep>> devices;
  bool operator==(const ComputeOrder&) const = default;

  [[nodiscard]] int chunks() const { return static_cast<int>(pipeline.size() / devices.size()); }
  /// The virtual stage of a device's chunk; throws InternalError when there is none.
  [[nodiscard]] std::size_t virtual_stage(int device, int chunk) const;
  /// The virtual stage before (-1) or after (+1) this one on the way of a micro-batch.
  [[nodiscard]] std::optional<std::size_t> neighbour(std::size_t stage, int offset) const;
  [[nodiscard]] int micro_batches_per_replica() const { return micro_batches / replicas; }
  /// Whether what a step reads and makes is kept for backward.
  [[nodiscard]] bool keeps(const ComputeStep& step) const {
    return step.phase == Phase::Forward && step.pass + 1 == forwards;
  }
  /// The first micro-batch that passes this virtual stage.
  [[nodiscard]] int first_micro_batch(std::size_t stage) const;
};

/// The end of the piece that begins here.
[[nodiscard]] std::size_t piece_end(std::span<const ComputeStep> steps, std::size_t begin);
/// Whether a piece is a forward and a backward at the same time.
[[nodiscard]] bool overlaps(std::span<const ComputeStep> piece);

// The orders. Each is a pure function and needs a legal shape (obstacle_of).

/// All forwards, then all backwards, micro-batches in the same sequence.
[[nodiscard]] ComputeOrder gpipe_order(const PipelineShape& shape);
/// Device r runs p - 1 - r forwards ahead, then alternates forward and backward.
[[nodiscard]] ComputeOrder one_f_one_b_order(const PipelineShape& shape);
/// Megatron's interleaved 1F1B, with groups of micro-batches of any legal size.
[[nodiscard]] ComputeOrder interleaved_order(const PipelineShape& shape);

/// Every forward as many times in a row. Waits for itself where there are several stages.
[[nodiscard]] ComputeOrder with_forwards_in_a_row(ComputeOrder order, int forwards);

/// The faults of an order taken by itself: pieces missing, repeated or unknown. Whether it can
/// run is another question: see lowering.hpp. Empty: nothing.
[[nodiscard]] std::vector<std::string> order_faults(const ComputeOrder& order);

/// Most chunks kept at one time on a device, from the start of a chunk's forward to the end of its
/// backward (weight gradient when separate).
[[nodiscard]] int peak_chunks(const ComputeOrder& order, int device);
/// The same weighted by chunk.
[[nodiscard]] Bytes peak_activation_bytes(const ComputeOrder& order, int device,
                                          std::span<const Bytes> bytes_of_chunk);

}  // namespace plansearch
