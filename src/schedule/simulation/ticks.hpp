// SPDX-License-Identifier: Apache-2.0
// Simulated time: whole ticks, so that every schedule is reproduced exactly on every machine.
#pragma once

#include <cstdint>

#include "plansearch/quantity.hpp"

namespace plansearch {

/// One tick is a picosecond where times come from costs; studies of schedules by themselves may
/// let it be anything (a slot). 64 bits hold 106 days of picoseconds.
using Ticks = std::int64_t;

inline constexpr double kTicksPerSecond = 1e12;
/// Sums of ticks stay below this, half of what 64 bits hold.
inline constexpr double kMostTicks = 4.6e18;

/// Rounded to the nearest tick; what is longer than kMostTicks is kMostTicks, which no sum accepts.
[[nodiscard]] constexpr Ticks to_ticks(Seconds time) {
  const double ticks = time.value() * kTicksPerSecond;
  if (!(ticks < kMostTicks)) return static_cast<Ticks>(kMostTicks);
  return static_cast<Ticks>(ticks < 0 ? ticks - 0.5 : ticks + 0.5);
}

[[nodiscard]] constexpr Seconds to_seconds(Ticks ticks) {
  return Seconds(static_cast<double>(ticks) / kTicksPerSecond);
}

}  // namespace plansearch
