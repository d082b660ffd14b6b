// SPDX-License-Identifier: Apache-2.0
// The numbers by which schedules are compared.
#pragma once

#include <vector>

#include "schedule/program/timeline.hpp"
#include "schedule/simulation/simulator.hpp"

namespace plansearch {

struct ScheduleSummary {
  Ticks makespan = 0;                    ///< first start to last end over all devices
  Ticks span = 0;                        ///< longest first start to last end of one device
  Ticks bubble_time = 0;                 ///< makespan less the computing of the busiest device
  double bubble_fraction = 0.0;          ///< bubble_time / makespan
  std::vector<double> peak_activations;  ///< by device, in micro-batches of one device-stage
  bool operator==(const ScheduleSummary&) const = default;
};

[[nodiscard]] ScheduleSummary summarize(const PipelineShape& shape, const PipelineResult& result);
[[nodiscard]] ScheduleSummary summarize(const ComputeOrder& order, const Timeline& timeline);

}  // namespace plansearch
