// SPDX-License-Identifier: Apache-2.0
// What messages between layouts cost on the tiers of a cluster.
#pragma once

#include "communication/redistribution/step_rates.hpp"
#include "evaluate/block/phase_message.hpp"

namespace plansearch {

/// Nanoseconds per element that a device sends in a message so long that latencies do not count,
/// with all sister groups active. Context and mesh outlive it.
class LinkRates : public StepRates {
 public:
  LinkRates(const PricingContext& context, const DeviceMesh& mesh)
      : context_(context), mesh_(mesh) {}

  /// What paths between layouts go by: nothing where not every sequence of steps is tried.
  [[nodiscard]] const StepRates* of_paths() const;

 private:
  [[nodiscard]] double find(CommunicationKind kind, AxisSet axes) const override;

  const PricingContext& context_;
  const DeviceMesh& mesh_;
};

}  // namespace plansearch
