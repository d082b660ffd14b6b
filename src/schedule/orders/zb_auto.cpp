// SPDX-License-Identifier: Apache-2.0
// Computes:   an order for given times and a given memory: the best of several lists and of all
//             fixed orders of the table that fit.
// Source:     the idea is that of Qi et al. (arXiv 2401.10241, section 3.1; zb.py of
//             sail-sg/zero-bubble-pipeline-parallelism@39f2c186): a heuristic with switches, weight
//             gradients as filler, a memory limit. The switches here are our own.
// Assumes:    equal stages; times and memory cap of the shape.
// Units:      ticks; chunks.
// Checked by: tests/unit/schedule/orders/zb_auto_test.cpp, against brute force
#include <algorithm>
#include <tuple>

#include "schedule/orders/list_scheduling.hpp"
#include "schedule/simulation/order_simulator.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Remembers the best order it is shown.
class Contest {
 public:
  Contest(const PipelineShape& shape, const UniformTimes& times)
      : times_(uniform_durations(shape, times)), most_chunks_(shape.cap() * shape.chunks) {}

  void show(ComputeOrder order) {
    int peak = 0;
    for (std::size_t d = 0; d < order.devices.size(); ++d) {
      peak = std::max(peak, peak_chunks(order, static_cast<int>(d)));
    }
    if (peak > most_chunks_) return;
    simulator_.run(compile(order, 0), 0, times_.view(), TransferMode::Asynchronous,
                   SteadyState::SimulateAll, result_);
    const std::tuple found(result_.makespan, result_.span(), peak);
    if (best_ && *best_ <= found) return;
    best_ = found;
    order_ = std::move(order);
  }
  [[nodiscard]] ComputeOrder winner() { return std::move(order_); }

 private:
  PipelineDurations times_;
  int most_chunks_;
  OrderSimulator simulator_;
  PipelineResult result_;
  std::optional<std::tuple<Ticks, Ticks, int>> best_;
  ComputeOrder order_;
};

/// Every fixed order for these places is a candidate.
void show_fixed(const PipelineShape& shape, Contest& contest) {
  const auto places = mapping_of(shape).places(shape.stages, shape.chunks);
  for (const ScheduleId id : all_schedules()) {
    const Schedule& row = schedule_row(id);
    if (row.tuned || row.placement->replicas != 1) continue;
    PipelineShape fixed = shape;
    fixed.schedule = id;
    if (fault_of(fixed) || row.placement->places(shape.stages, shape.chunks) != places) continue;
    contest.show(row.order(fixed));
  }
}

ComputeOrder zb_auto_order(const PipelineShape& shape) {
  const UniformTimes times = shape.tuned.value_or(UniformTimes{1, 1, 0, 1});
  Contest contest(shape, times);
  for (const Prefer prefer : {Prefer::Backward, Prefer::Forward}) {
    for (const Filler filler : {Filler::Always, Filler::WhereItFits}) {
      for (const Ahead ahead : {Ahead::Memory, Ahead::TwiceTheWay}) {
        contest.show(list_order(shape, times, {prefer, filler, ahead}));
      }
    }
  }
  show_fixed(shape, contest);
  ComputeOrder order = contest.winner();
  // Fixed orders with whole backwards run both gradients in a row.
  return order.weight_gradients == WeightGradients::Separate ? order : split(std::move(order));
}

}  // namespace

Schedule zb_auto_schedule() {
  Schedule row;
  row.name = "zb-auto";
  row.summary = "the best of many orders for the times and the memory at hand";
  row.placement = &snake_mapping();  // one chunk: a loop
  row.other_placement = &looped_mapping();
  row.chunks = {1, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.order = zb_auto_order;
  row.tuned = true;
  return row;
}

}  // namespace plansearch
