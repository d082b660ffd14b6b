// SPDX-License-Identifier: Apache-2.0
// Which points come first: those that tell most, whatever the number that are measured.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/probe.hpp"

namespace plansearch::calibrate {

/// Points of each probe so that every prefix covers its sweep as evenly as it can (the next point
/// is the one farthest from all before it, on logarithmic scales), probes taking turns; groups of
/// so many are shuffled, so that drift of the machine is not taken for a trend of the sweep.
[[nodiscard]] std::vector<Point> informative_order(const std::vector<std::vector<Point>>& probes,
                                                   std::uint64_t seed);

}  // namespace plansearch::calibrate
