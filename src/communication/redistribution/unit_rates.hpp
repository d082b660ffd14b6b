// SPDX-License-Identifier: Apache-2.0
// Cost of an element that moves along units of a pattern; not installed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "communication/redistribution/redistribution_units.hpp"

namespace plansearch {

/// As multiples of what it costs when all units are gathered together; 1 without rates.
class UnitRates {
 public:
  /// Sets the rates of a pattern of few units; `steps` may be null.
  void set(const RedistributionUnits& units, const StepRates* steps);
  [[nodiscard]] double operator()(CommunicationKind kind, std::uint32_t units) const {
    if (rates_.empty()) return 1.0;
    return rates_[std::size_t{units} << kKindBits | static_cast<std::size_t>(kind)];
  }
  /// All of them.
  void put(std::string& bytes) const;

 private:
  static constexpr std::size_t kKindBits = 3;
  std::vector<double> rates_;  ///< by units and kind
};

}  // namespace plansearch
