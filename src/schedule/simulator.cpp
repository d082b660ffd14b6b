// SPDX-License-Identifier: Apache-2.0
// Computes:   makespan and device use of any schedule of the table.
// Source:     rounds.hpp where the schedule has rounds, order_simulator.hpp for all others.
// Assumes:    in-order compute queues; one send stream per device and direction.
// Units:      ticks.
// Checked by: tests/unit/schedule/simulator_test.cpp, against the task graph of the same order.
#include "schedule/simulator.hpp"

#include "schedule/table.hpp"

namespace plansearch {
namespace {

void add_work(const PipelineShape& shape, const PipelineTimes& times, PipelineResult& result) {
  const auto places = stage_places(shape);
  for (std::size_t k = 0; k < places.size(); ++k) {
    const Ticks weight = times.weight_gradient.empty() ? 0 : times.weight_gradient[k];
    const Ticks work = times.forward[k] + times.backward[k] + weight;
    result.devices[static_cast<std::size_t>(places[k].device)].busy += work * shape.micro_batches;
  }
}

}  // namespace

const PipelineResult& PipelineSimulator::run(const PipelineShape& shape, const PipelineTimes& times,
                                             SteadyState steady) {
  check_times(shape, times);
  const Schedule& row = schedule_row(shape.schedule);
  if (row.rounds != nullptr && (!row.has_rounds || row.has_rounds(shape))) {
    rounds_.run(row.rounds, shape, times, steady, result_);
    return result_;
  }
  const ShapeOrder& order = shape_order(shape);
  order_.run(*order.compiled, order.periods_left_out, times, shape.transfers, steady, result_);
  const auto per_period = order.compiled->period;
  result_.micro_batches_simulated =
      shape.micro_batches - static_cast<int>(order_.periods_skipped()) * per_period;
  add_work(shape, times, result_);
  return result_;
}

}  // namespace plansearch
