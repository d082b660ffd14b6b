// SPDX-License-Identifier: Apache-2.0
// Exact step time of a pipeline under any schedule of the table.
//
// How to use:
//   PipelineSimulator simulator;                       // keep one per thread: it owns the memory
//   PipelineShape shape{*find_schedule("zb-h1"), 16, 64};
//   if (auto obstacle = obstacle_of(shape)) ...        // legality first, run() only checks sizes
//   const PipelineResult& result = simulator.run(shape, times);   // valid until the next run
//   result.makespan; result.devices[r].busy; result.bubble(r);
// run() allocates nothing once the simulator has seen a pipeline of this shape. Durations are taken
// from the spans of `times`, indexed by virtual stage (schedule/simulation/pipeline.hpp). Schedules
// that run chunk by chunk are flow shops (flow_simulator.hpp), those that have rounds (rounds.hpp)
// are run by them, all others step by step (order_simulator.hpp).
#pragma once

#include <span>
#include <vector>

#include "plansearch/quantity.hpp"
#include "schedule/simulation/flow_simulator.hpp"
#include "schedule/simulation/order_simulator.hpp"
#include "schedule/simulation/pipeline.hpp"
#include "schedule/simulation/rounds.hpp"

namespace plansearch {

class PipelineSimulator {
 public:
  /// Requires a legal shape (obstacle_of) and matching times. Throws InputError when the times add
  /// up to more than 2^63 ticks.
  const PipelineResult& run(const PipelineShape& shape, const PipelineTimes& times,
                            SteadyState steady = SteadyState::Extrapolate);

 private:
  FlowSimulator flow_;
  RoundSimulator rounds_;
  OrderSimulator order_;
  PipelineResult result_;
};

/// Most chunks whose activations device `rank` keeps at one time (divide by `chunks` for
/// micro-batches of a whole device-stage): from the start of the forward to the end of the
/// backward, or of the weight gradient where that is a piece of its own. Depends on the order
/// alone.
[[nodiscard]] int peak_chunks(const PipelineShape& shape, int rank);

/// The same weighted: one micro-batch leaves `bytes_of_chunk[c]` on the device in chunk c (chunks
/// of further replicas follow those of the first), of which `weight_bytes_of_chunk[c]` stays after
/// the input gradient until the weight gradient has run. The latter is not read where the schedule
/// does not split the backward; empty: all of it stays.
[[nodiscard]] Bytes peak_activation_bytes(const PipelineShape& shape, int rank,
                                          std::span<const Bytes> bytes_of_chunk,
                                          std::span<const Bytes> weight_bytes_of_chunk = {});

/// The numbers by which schedules are compared.
struct ScheduleSummary {
  Ticks makespan = 0;                    ///< first start to last end over all devices
  Ticks span = 0;                        ///< longest first start to last end of one device
  Ticks bubble_time = 0;                 ///< makespan less the computing of the busiest device
  double bubble_fraction = 0.0;          ///< bubble_time / makespan
  std::vector<double> peak_activations;  ///< by device, in micro-batches of one device-stage
  bool operator==(const ScheduleSummary&) const = default;
};
[[nodiscard]] ScheduleSummary summarize(const PipelineShape& shape, const PipelineResult& result);

}  // namespace plansearch
