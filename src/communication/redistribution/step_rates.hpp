// SPDX-License-Identifier: Apache-2.0
// Costs of steps between layouts on the links of a machine.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "plansearch/axis.hpp"
#include "plansearch/communication_kind.hpp"

namespace plansearch {

/// Kinds of steps between layouts that send something.
inline constexpr std::array kMovingKinds{
    CommunicationKind::AllGather, CommunicationKind::ReduceScatter, CommunicationKind::AllReduce,
    CommunicationKind::AllToAll, CommunicationKind::Permute};

/// All sets of these axes, the empty one first.
[[nodiscard]] std::vector<AxisSet> subsets(AxisSet axes);

/// Cost of one element that a device sends in a long message over the links between the devices of
/// some axes: in any unit, above 0. For one thread at a time.
class StepRates {
 public:
  virtual ~StepRates() = default;
  StepRates() = default;
  StepRates(const StepRates&) = delete;
  StepRates& operator=(const StepRates&) = delete;

  [[nodiscard]] double rate(CommunicationKind kind, AxisSet axes) const;
  /// The least of all steps over any of these axes, some of `with` among them.
  [[nodiscard]] double least(AxisSet axes, AxisSet with) const;

 private:
  [[nodiscard]] virtual double find(CommunicationKind kind, AxisSet axes) const = 0;

  mutable std::unordered_map<std::uint64_t, double> rates_;  ///< by kind and axes
  mutable std::unordered_map<std::uint64_t, double> least_;  ///< by axes of both sets
};

}  // namespace plansearch
