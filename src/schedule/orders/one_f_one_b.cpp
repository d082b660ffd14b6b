// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of 1F1B (PipeDream-flush).
// Source:     Narayanan et al. (SC 2021); alpa-projects/alpa@b8078a9f schedules.py.
// Assumes:    one chunk per device.
// Units:      none.
// Checked by: tests/unit/schedule/orders_test.cpp
#include <algorithm>

#include "schedule/simulation/alternating.hpp"
#include "schedule/table.hpp"

namespace plansearch {

ComputeOrder one_f_one_b_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  for (int device = 0; device < shape.stages; ++device) {
    const int warm = std::min(shape.stages - 1 - device, shape.micro_batches);
    std::vector<ComputeStep> steps;
    for (int i = 0; i < warm; ++i) steps.push_back({0, i, Phase::Forward});
    for (int i = 0; i < shape.micro_batches; ++i) {
      if (warm + i < shape.micro_batches) steps.push_back({0, warm + i, Phase::Forward});
      steps.push_back({0, i, Phase::Backward});
    }
    order.devices.push_back(std::move(steps));
  }
  return order;
}

Schedule one_f_one_b_schedule() {
  Schedule row;
  row.name = "1f1b";
  row.aliases = {"pipedream-flush"};
  row.summary = "one forward, one backward: at most as many micro-batches as stages in flight";
  row.placement = &looped_mapping();
  row.order = one_f_one_b_order;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, shape.stages}; };
  row.rounds = &RoundSimulator::one_f_one_b;
  row.bound = alternating_bound;
  row.estimate = alternating_estimate;
  row.warm_up = alternating_warm_up;
  return row;
}

}  // namespace plansearch
