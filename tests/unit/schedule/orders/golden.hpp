// SPDX-License-Identifier: Apache-2.0
// Makespans, spans and peaks of one schedule with equal stages.
#pragma once

#include <vector>

#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

namespace plansearch::testing {

/// Durations of one chunk; backward is the input gradient.
struct Triple {
  Ticks forward = 1;
  Ticks backward = 1;
  Ticks weight = 1;
  [[nodiscard]] Ticks work() const { return forward + backward + weight; }
};

[[nodiscard]] inline PipelineShape shape_of(std::string_view name, int stages, int micro_batches,
                                            int chunks = 1) {
  PipelineShape shape;
  shape.schedule = *find_schedule(name);
  shape.stages = stages;
  shape.micro_batches = micro_batches;
  shape.chunks = chunks;
  return shape;
}

[[nodiscard]] inline ScheduleSummary summary_of(const PipelineShape& shape, Triple t,
                                                Ticks transfer = 0) {
  PipelineSimulator simulator;
  const auto times = uniform_durations(shape, {t.forward, t.backward, transfer, t.weight});
  return summarize(shape, simulator.run(shape, times.view()));
}

}  // namespace plansearch::testing
