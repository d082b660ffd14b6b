// SPDX-License-Identifier: Apache-2.0
// Computes: rates of steps along units.
// Source: those of their axes (communication/redistribution/step_rates.hpp).
// Assumes: slices are free.
// Units: multiples of the rate of a gather over all units.
// Checked by: tests/unit/communication/layout_paths_test.cpp
#include "communication/redistribution/unit_rates.hpp"

namespace plansearch {

void UnitRates::set(const RedistributionUnits& units, const StepRates* steps) {
  rates_.clear();
  const std::uint32_t all = (1U << units.pattern().units) - 1U;
  if (steps == nullptr || all == 0) return;
  rates_.assign((std::size_t{all} + 1) << kKindBits, 0.0);
  const double of_all = steps->rate(CommunicationKind::AllGather, units.axes(all));
  for (std::uint32_t some = 1; some <= all; ++some) {
    const AxisSet axes = units.axes(some);
    for (const CommunicationKind kind : kMovingKinds) {
      rates_[std::size_t{some} << kKindBits | static_cast<std::size_t>(kind)] =
          steps->rate(kind, axes) / of_all;
    }
  }
}

void UnitRates::put(std::string& bytes) const {
  bytes.append(reinterpret_cast<const char*>(rates_.data()), rates_.size() * sizeof(double));
}

}  // namespace plansearch
