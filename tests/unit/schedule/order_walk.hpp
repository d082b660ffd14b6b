// SPDX-License-Identifier: Apache-2.0
// What devices keep and how they wait, read off an order and its timeline step by step: the
// simulator's figures are compared with these.
#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "schedule/order/compute_order.hpp"
#include "schedule/program/timeline.hpp"
#include "schedule/simulation/simulator.hpp"

namespace plansearch {

/// Most chunks kept at one time on a device, from the start of a chunk's forward to the end of its
/// backward (weight gradient when separate).
[[nodiscard]] inline int peak_chunks(const ComputeOrder& order, int device) {
  int kept = 0;
  int peak = 0;
  for (const ComputeStep& step : order.devices[static_cast<std::size_t>(device)]) {
    if (order.keeps(step)) peak = std::max(peak, ++kept);
    if (step.phase == order.last_phase()) --kept;
  }
  return peak;
}

/// The same weighted by chunk.
[[nodiscard]] inline Bytes peak_activation_bytes(const ComputeOrder& order, int device,
                                                 std::span<const Bytes> bytes_of_chunk) {
  Bytes kept;
  Bytes peak;
  for (const ComputeStep& step : order.devices[static_cast<std::size_t>(device)]) {
    const Bytes bytes = bytes_of_chunk[static_cast<std::size_t>(step.chunk)];
    if (order.keeps(step)) kept += bytes;
    peak = std::max(peak, kept);
    if (step.phase == order.last_phase()) kept -= bytes;
  }
  return peak;
}

[[nodiscard]] inline ScheduleSummary summarize(const ComputeOrder& order,
                                               const Timeline& timeline) {
  ScheduleSummary summary;
  summary.makespan = timeline.makespan();
  Ticks busiest = 0;
  for (int device = 0; device < timeline.devices; ++device) {
    Ticks busy = 0, last = 0;
    std::optional<Ticks> first;
    for (const TimelineEntry& entry : timeline.entries) {
      if (entry.device != device) continue;
      first = std::min(first.value_or(entry.start), entry.start);
      last = std::max(last, entry.end);
      busy += entry.end - entry.start;
    }
    summary.span = std::max(summary.span, last - first.value_or(last));
    busiest = std::max(busiest, busy);
    summary.peak_activations.push_back(static_cast<double>(peak_chunks(order, device)) /
                                       order.chunks() * order.replicas);
  }
  summary.bubble_time = summary.makespan - busiest;
  if (summary.makespan > 0) {
    summary.bubble_fraction =
        static_cast<double>(summary.bubble_time) / static_cast<double>(summary.makespan);
  }
  return summary;
}

}  // namespace plansearch
