// SPDX-License-Identifier: Apache-2.0
// The best options of the operators of all layers on one tensor group: one dimension, or sequences
// of dimensions and squares.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/choice_tables.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// A choice for all layers. Copies of a block are cut alike, and hand on what they take in.
struct PartitionPlan {
  Placements placements;  ///< for the network of the problem
  /// Passes of one micro-batch, and what a step adds shared out among its micro-batches; embedding
  /// and head included.
  Seconds sum;
  double bytes = 0.0;   ///< states and saved activations of the layers
  std::string words{};  ///< "qkv N P2x2; ..."
};

/// Lower bound of every choice, of one copy by block of the network.
struct SequenceBound {
  std::vector<Seconds> kernels{};  ///< of one micro-batch
  std::vector<double> bytes{};     ///< states and what micro-batches leave behind, of layers
};

/// Questions may be asked from several threads. Resharding costs are computed before the first sum,
/// which takes most of the time of a planner; sums throw Stopped.
class PartitionPlanner {
 public:
  struct Request {
    const Problem& problem;
    const PlanDegrees& degrees;  ///< bits: tensor_out a power of two; of a pipeline, all layers
    PartitionSpace space = PartitionSpace::All;
    std::shared_ptr<ReshardingPrices> moves{};  ///< as of ChoicePricer
  };
  explicit PartitionPlanner(const Request& request);
  ~PartitionPlanner();

  /// Why there is no choice at all; empty where there is one.
  [[nodiscard]] const std::string& obstacle() const;
  /// The fastest kernels and the fewest bytes of every launch where so many micro-batches are held;
  /// embedding and head by role between the edges that suit them best. ReshardingCosts need no price
  /// for it.
  [[nodiscard]] SequenceBound bound(Recompute level, double in_flight = 1.0) const;
  /// A level, and the micro-batches held at it.
  struct Held {
    Recompute level;
    double in_flight;
  };
  /// Leaves options out, before anything but bounds is asked: those with which the bound of no
  /// level `may_serve`. False where no choice is left.
  [[nodiscard]] bool keep(
      const std::vector<Held>& levels,
      const std::function<bool(std::size_t level, const SequenceBound&)>& may_serve);
  /// The cheapest choice where a byte costs so many seconds of a micro-batch.
  [[nodiscard]] std::optional<PartitionPlan> best(Recompute level, Rings rings,
                                                  double seconds_per_byte) const;
  /// Whether the sums are exact (ChoiceTables::exact).
  [[nodiscard]] bool exact() const;
  /// Tables of one block of layers, with prices of all moves; null for embedding and head.
  [[nodiscard]] const ChoiceTables* tables(std::size_t block) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The least sum first, then the least bytes, then the corners of the convex front between; points
/// within 1 % in time or in bytes count as one. Empty where there is no choice.
[[nodiscard]] std::vector<PartitionPlan> sequence_front(const PartitionPlanner& planner,
                                                        Recompute level, Rings rings);

/// The corner of that front with the least sum of those that have room, where `fastest`, the least
/// sum of all, has none. Nothing where the least bytes have none either.
[[nodiscard]] std::optional<PartitionPlan> fastest_with_room(
    const PartitionPlanner& planner, Recompute level, Rings rings, const PartitionPlan& fastest,
    const std::function<bool(const PartitionPlan&)>& has_room);

}  // namespace plansearch
