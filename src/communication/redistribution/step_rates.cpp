// SPDX-License-Identifier: Apache-2.0
// Computes: rates of steps, each asked for once; the least of those over some axes.
// Source: nothing but the definition.
// Assumes: a step over several axes may cost less than over each of them.
// Units: those of the rates.
// Checked by: tests/unit/communication/layout_paths_test.cpp
#include "communication/redistribution/step_rates.hpp"

#include <algorithm>

namespace plansearch {

std::vector<AxisSet> subsets(AxisSet axes) {
  std::vector<AxisSet> found{{}};
  for_each_axis(axes, [&](Axis axis) {
    for (std::size_t i = 0, count = found.size(); i < count; ++i) {
      found.push_back(found[i] | AxisSet{axis});
    }
  });
  return found;
}

double StepRates::rate(CommunicationKind kind, AxisSet axes) const {
  const std::uint64_t key = std::uint64_t{axes.bits()} << 8U | static_cast<std::uint64_t>(kind);
  const auto [place, is_new] = rates_.try_emplace(key, 0.0);
  if (is_new) place->second = find(kind, axes);
  return place->second;
}

double StepRates::least(AxisSet axes, AxisSet with) const {
  const std::uint64_t key = std::uint64_t{axes.bits()} << 32U | with.bits();
  const auto [place, is_new] = least_.try_emplace(key, 0.0);
  if (!is_new) return place->second;
  double least = rate(CommunicationKind::AllGather, axes);
  for (const AxisSet some : subsets(axes)) {
    if ((some & with).empty()) continue;
    for (const CommunicationKind kind : kMovingKinds) least = std::min(least, rate(kind, some));
  }
  return least_[key] = least;
}

}  // namespace plansearch
