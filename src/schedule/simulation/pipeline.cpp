// SPDX-License-Identifier: Apache-2.0
// Computes:   equal durations for all stages of a pipeline; checks of durations.
// Source:     definitions.
// Assumes:    nothing.
// Units:      ticks.
// Checked by: tests/unit/schedule/pipeline_test.cpp
#include "schedule/simulation/pipeline.hpp"

#include <limits>

#include "plansearch/error.hpp"

namespace plansearch {

PipelineDurations uniform_durations(const PipelineShape& shape, UniformTimes times) {
  const auto count = static_cast<std::size_t>(shape.virtual_stages());
  PipelineDurations result;
  result.forward.assign(count, times.forward);
  result.backward.assign(count, times.backward);
  if (times.weight > 0) result.weight_gradient.assign(count, times.weight);
  if (times.overlapped) {
    result.overlapped_forward.assign(count, *times.overlapped - times.backward - times.weight);
  }
  const auto boundaries = static_cast<std::size_t>(shape.boundaries());
  result.activation_transfer.assign(boundaries, times.transfer);
  result.gradient_transfer.assign(boundaries, times.transfer);
  return result;
}

void check_total(const PipelineShape& shape, const PipelineTimes& times) {
  // All bits together are at least the longest: enough to see that nothing is near the limit.
  Ticks bits = 0;
  for (const auto& durations : {times.forward, times.backward, times.weight_gradient,
                                times.activation_transfer, times.gradient_transfer}) {
    for (const Ticks duration : durations) bits |= duration;
  }
  const double passes = static_cast<double>(shape.micro_batches) * shape.forwards;
  const double pieces = 5.0 * shape.virtual_stages() * passes;
  if (static_cast<double>(bits) * pieces < kMostTicks) return;
  double sum = 0.0;
  for (const auto& durations : {times.forward, times.backward, times.weight_gradient,
                                times.activation_transfer, times.gradient_transfer}) {
    for (const Ticks duration : durations) sum += static_cast<double>(duration);
  }
  // No order takes longer than all pieces and messages one after the other.
  if (sum * passes < kMostTicks) return;
  throw SimulationLimit("the pieces of one step add up to more than " +
                            std::to_string(std::numeric_limits<Ticks>::max()) +
                            " ticks, all that 64 bits hold (106 days of picoseconds)",
                        "a smaller batch or network, or shorter times");
}

void check_times(const PipelineShape& shape, const PipelineTimes& times) {
  const auto count = static_cast<std::size_t>(shape.virtual_stages());
  PLANSEARCH_CHECK(times.forward.size() == count);
  PLANSEARCH_CHECK(times.backward.size() == count);
  PLANSEARCH_CHECK(times.weight_gradient.empty() || times.weight_gradient.size() == count);
  PLANSEARCH_CHECK(times.overlapped_forward.empty() || times.overlapped_forward.size() == count);
  const auto boundaries = static_cast<std::size_t>(shape.boundaries());
  PLANSEARCH_CHECK(times.activation_transfer.size() == boundaries);
  PLANSEARCH_CHECK(times.gradient_transfer.size() == boundaries);
  for (const auto& durations :
       {times.forward, times.backward, times.weight_gradient, times.activation_transfer,
        times.gradient_transfer, times.overlapped_forward}) {
    for (const Ticks duration : durations) PLANSEARCH_CHECK(duration >= 0);
  }
  check_total(shape, times);
}

}  // namespace plansearch
