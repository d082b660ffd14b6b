// SPDX-License-Identifier: Apache-2.0
// Computes:   makespan and device use of any schedule of the table.
// Source:     flow_simulator.hpp chunk by chunk, rounds.hpp where the schedule has rounds,
//             order_simulator.hpp for all others.
// Assumes:    in-order compute queues; one send stream per device and direction.
// Units:      ticks.
// Checked by: tests/unit/schedule/simulator_test.cpp, against the task graph of the same order.
#include "schedule/simulation/simulator.hpp"

#include "schedule/table.hpp"

namespace plansearch {
const PipelineResult& PipelineSimulator::run(const PipelineShape& shape, const PipelineTimes& times,
                                             SteadyState steady) {
  check_times(shape, times);
  const Schedule& row = schedule_row(shape.schedule);
  if (row.chunk_by_chunk) {
    flow_.run(shape, times, result_);
    return result_;
  }
  if (row.rounds != nullptr && (!row.has_rounds || row.has_rounds(shape))) {
    rounds_.run(row.rounds, shape, times, steady, result_);
    return result_;
  }
  const ShapeOrder& order = shape_order(tuned_to(shape, times));
  order_.run(*order.compiled, order.periods_left_out, times, shape.transfers, steady, result_);
  const auto per_period = order.compiled->period;
  result_.micro_batches_simulated =
      shape.micro_batches - static_cast<int>(order_.periods_skipped()) * per_period;
  return result_;
}

}  // namespace plansearch
