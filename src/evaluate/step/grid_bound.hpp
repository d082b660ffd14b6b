// SPDX-License-Identifier: Apache-2.0
// What a plan needs at least, told by its degrees alone: no placement, no kernel, no communication.
#pragma once

#include "evaluate/block/class_profile.hpp"
#include "evaluate/block/phase_message.hpp"

namespace plansearch {

/// Sums over the whole network, made once per problem.
class GridBound {
 public:
  explicit GridBound(const PricingContext& context);

  /// Below the bound of `plan` and of every plan that differs from it in schedule and chunks.
  /// `statics` are the plan's own; `waits`: of one piece of a micro-batch on its way through the
  /// network. Without waits, also below plans with more recompute or larger micro-batches.
  [[nodiscard]] PlanBound of(const PlanDegrees& plan, const ModelStatePolicy& statics,
                             const BlockWaits& waits) const;
  /// Where the order runs forwards beside backwards.
  [[nodiscard]] Seconds joined_time(const PlanDegrees& plan, const BlockWaits& waits) const;

 private:
  [[nodiscard]] Bytes memory(const PlanDegrees& plan, const ModelStatePolicy& statics) const;
  [[nodiscard]] Seconds step_time(const PlanDegrees& plan, const BlockWaits& waits) const;

  /// Matrix products of one sequence through the network, on one device at its best rate.
  struct Work {
    Seconds forward;
    Seconds input_gradient;
    Seconds weight_gradient;
    std::array<Seconds, 3> repeated{};  ///< forward work run again, by recompute level
  };
  double gpus_;
  double global_batch_;
  GradientStorage gradients_;
  Bytes reserve_;
  ParameterCount parameters_;  ///< of the network; shared ones once
  Work work_;
};

}  // namespace plansearch
