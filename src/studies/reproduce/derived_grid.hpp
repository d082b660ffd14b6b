// SPDX-License-Identifier: Apache-2.0
// What the priced path says a grid moves, for closed forms to be set beside.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "plansearch/evaluator.hpp"
#include "studies/reproduce/grid_model.hpp"

namespace plansearch {

/// Messages of the four products of every layer, in time, of plans that run the
/// batch in one piece: derived, priced as any plan's, calls and launches of the
/// framework taken off. What a network of twice the layers sends beyond one of
/// these is theirs: ends are the same.
class DerivedGrid {
 public:
  struct Question {
    const GptSizes& sizes;
    std::string hardware;
    int gpus;
    std::int64_t batch;
  };
  DerivedGrid(const Question& question, const ShippedData& data);

  /// Absent where the network does not divide.
  [[nodiscard]] std::optional<double> seconds(const TensorGrid& grid, Recompute recompute) const;
  /// Whether its framework keeps the weights gathered for forward until backward.
  [[nodiscard]] bool keeps_gathered() const { return keeps_gathered_; }

 private:
  std::int64_t batch_;
  bool keeps_gathered_ = false;
  /// The network and one of twice the layers.
  struct Pair {
    std::unique_ptr<PlanEvaluator> once;
    std::unique_ptr<PlanEvaluator> twice;
    [[nodiscard]] double layers(const PlanDegrees& plan, bool over_data) const;
  };
  Pair narrow_;  ///< 2 bytes an element on every wire
  Pair wide_;    ///< 4 bytes for gradients
};

}  // namespace plansearch
