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
  /// The phase whose end frees what was kept for a micro-batch.
  [[nodiscard]] Phase last_phase() const {
    return weight_gradients == WeightGradients::Separate ? Phase::WeightGradient : Phase::Backward;
  }
  /// Whether what a step reads and makes is kept for backward.
  [[nodiscard]] bool keeps(const ComputeStep& step) const {
    return step.phase == Phase::Forward && step.pass + 1 == forwards;
  }
  /// The first micro-batch that passes this virtual stage.
  [[nodiscard]] int first_micro_batch(std::size_t stage) const;
};

/// "F3", "F3 of pass 2"
[[nodiscard]] std::string step_name(Phase phase, int micro_batch, int pass = 0);

/// The end of the piece that begins here.
[[nodiscard]] std::size_t piece_end(std::span<const ComputeStep> steps, std::size_t begin);
/// Whether a piece is a forward and a backward at the same time.
[[nodiscard]] bool overlaps(std::span<const ComputeStep> piece);

/// Every forward as many times in a row. Waits for itself where there are several stages.
[[nodiscard]] ComputeOrder with_forwards_in_a_row(ComputeOrder order, int forwards);

/// The faults of an order taken by itself: pieces missing, repeated or unknown. Whether it can
/// run is another question: see lowering.hpp. Empty: nothing.
[[nodiscard]] std::vector<std::string> order_faults(const ComputeOrder& order);

}  // namespace plansearch
