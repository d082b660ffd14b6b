// SPDX-License-Identifier: Apache-2.0
// Computes: the time of a collective from a table of measured sizes.
// Source: measured times of the profile (`measured` of a link).
// Assumes: between two sizes the logarithm of time is linear in that of the size; below the
//          smallest it is latency, above the largest time grows with the message.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/measured_time_test.cpp
#include "cost/collective/measured_time.hpp"

#include <algorithm>
#include <cmath>

namespace plansearch {

Seconds time_of(const MeasuredTimes& table, Bytes message) {
  if (message <= table.sizes.front()) return table.times.front();
  if (message >= table.sizes.back()) return table.times.back() * (message / table.sizes.back());
  const auto above = std::lower_bound(table.sizes.begin(), table.sizes.end(), message);
  const auto i = static_cast<std::size_t>(above - table.sizes.begin());
  const double share =
      std::log(message / table.sizes[i - 1]) / std::log(table.sizes[i] / table.sizes[i - 1]);
  return table.times[i - 1] * std::pow(table.times[i] / table.times[i - 1], share);
}

std::optional<Seconds> measured_time(const LinkTier& tier, CommunicationKind kind, Bytes message,
                                     const GroupSpan& span) {
  const auto* curve = std::get_if<LocalLinkCurve>(&tier.curve);
  if (curve == nullptr || curve->measured.empty() || span.nodes > 1.0) return std::nullopt;
  for (const MeasuredTimes& table : curve->measured) {
    if (table.ranks == span.ranks && table.kind == to_text(kind)) return time_of(table, message);
  }
  return std::nullopt;
}

}  // namespace plansearch
