// SPDX-License-Identifier: Apache-2.0
// Closed forms of equal stages, to compare bounds and simulations with.
#pragma once

#include <algorithm>
#include <optional>

#include "schedule/simulation/pipeline.hpp"
#include "support/schedules.hpp"

namespace plansearch::testing {

/// Exact makespan of the three old schedules for equal stages: `times` are those of one virtual
/// stage and one boundary. Nothing where no closed form is known: interleaved with transfers, and
/// 1F1B with transfers unless micro-batches are a multiple of the stages and a transfer is no
/// longer than a forward. Source: GPipe and PipeDream-flush papers; the transfer term of 1F1B from
/// simulation of 2 to 8 stages and up to 64 micro-batches.
inline std::optional<Ticks> uniform_makespan(const PipelineShape& shape, UniformTimes times) {
  const Ticks p = shape.stages;
  const Ticks m = shape.micro_batches;
  const Ticks t = times.forward + times.backward;
  const Ticks plain = m * shape.chunks * t + (p - 1) * t;
  if (times.transfer == 0 || p == 1) return plain;
  if (shape.transfers == TransferMode::Blocking || shape.chunks > 1) return std::nullopt;
  if (shape.schedule == test::kGPipe) {
    const auto longest = [&](Ticks duration) { return std::max(duration, times.transfer); };
    return p * t + 2 * (p - 1) * times.transfer +
           (m - 1) * (longest(times.forward) + longest(times.backward));
  }
  if (m % p != 0 || times.transfer > times.forward || times.transfer > times.backward) {
    return std::nullopt;
  }
  return plain + 2 * times.transfer * ((p - 1) * (m / p) + p - 2);
}

/// Idle share of every device for equal stages without transfers: (p - 1) / (v m + p - 1).
inline double uniform_bubble_fraction(const PipelineShape& shape) {
  const double wasted = shape.stages - 1;
  return wasted / (static_cast<double>(shape.micro_batches) * shape.chunks + wasted);
}

}  // namespace plansearch::testing
