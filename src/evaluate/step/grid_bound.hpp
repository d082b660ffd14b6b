// SPDX-License-Identifier: Apache-2.0
// Least memory and step time of a plan by its degrees alone: no placement, kernel or communication.
#pragma once

#include "base/parallel.hpp"
#include "evaluate/block/class_profile.hpp"
#include "evaluate/block/phase_message.hpp"

namespace plansearch {

/// Sums over the whole network, made once per problem. Thread-safe; the problem of the context must
/// outlive it.
class GridBound {
 public:
  explicit GridBound(const PricingContext& context);

  /// Below the bound of `plan` and of every plan that differs from it in schedule and chunks.
  /// `statics` are the plan's own. Also below plans with more recompute or larger micro-batches.
  [[nodiscard]] PlanBound of(const PlanDegrees& plan, const ModelStatePolicy& statics) const;
  /// A step of at least this work and these waits, both of one piece of a micro-batch on its way
  /// through the network.
  [[nodiscard]] Seconds step_time(const PlanDegrees& plan, const NetworkWork& work,
                                  const BlockWaits& waits) const;
  /// Where the order runs forwards beside backwards.
  [[nodiscard]] Seconds joined_time(const PlanDegrees& plan, const NetworkWork& work,
                                    const BlockWaits& waits) const;
  [[nodiscard]] Bytes memory(const PlanDegrees& plan, const ModelStatePolicy& statics) const;
  /// Least work of any placement of the plan.
  [[nodiscard]] NetworkWork work(const PlanDegrees& plan) const;
  /// Whether weights are not trained, and their least bytes on the mean device.
  [[nodiscard]] bool has_frozen() const {
    return parameters_.frozen_dense + parameters_.frozen_expert > 0.0;
  }
  [[nodiscard]] Bytes frozen_bytes(const PlanDegrees& plan, const ModelStatePolicy& statics) const;

 private:
  [[nodiscard]] const NetworkWork& sequence() const;
  void price_sequence() const;

  GradientStorage gradients_;
  bool pages_;  ///< states may leave the device
  Bytes reserve_;
  ParameterCount parameters_;  ///< of the network; shared ones once
  const Problem& problem_;
  mutable Once priced_;
  /// Work of one sequence, its share of many on one device that has all; priced on demand.
  mutable NetworkWork sequence_;
};

}  // namespace plansearch
