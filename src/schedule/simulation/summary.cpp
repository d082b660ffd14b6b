// SPDX-License-Identifier: Apache-2.0
// Computes:   makespan, span, bubble and peaks of a schedule.
// Source:     definitions in summary.hpp; (p-1)/(m+p-1) follows for equal stages (GPipe, 1F1B).
// Assumes:    nothing.
// Units:      ticks; micro-batches of one device-stage.
// Checked by: tests/unit/schedule/summary_test.cpp
#include "schedule/simulation/summary.hpp"

#include <algorithm>

namespace plansearch {
namespace {

void set_bubble(ScheduleSummary& summary, Ticks busiest) {
  summary.bubble_time = summary.makespan - busiest;
  if (summary.makespan > 0) {
    summary.bubble_fraction =
        static_cast<double>(summary.bubble_time) / static_cast<double>(summary.makespan);
  }
}

}  // namespace

ScheduleSummary summarize(const PipelineShape& shape, const PipelineResult& result) {
  ScheduleSummary summary;
  summary.makespan = result.makespan;
  summary.span = result.span();
  Ticks busiest = 0;
  for (const DeviceUse& use : result.devices) busiest = std::max(busiest, use.busy);
  set_bubble(summary, busiest);
  for (int device = 0; device < shape.stages; ++device) {
    summary.peak_activations.push_back(static_cast<double>(peak_chunks(shape, device)) /
                                       shape.chunks);
  }
  return summary;
}

ScheduleSummary summarize(const ComputeOrder& order, const Timeline& timeline) {
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
  set_bubble(summary, busiest);
  return summary;
}

}  // namespace plansearch
