// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of GPipe.
// Source:     Huang et al., GPipe (NeurIPS 2019); alpa-projects/alpa@b8078a9f schedules.py.
// Assumes:    backwards in the sequence of the forwards.
// Units:      none.
// Checked by: tests/unit/schedule/orders_test.cpp
#include "schedule/simulation/closed_form.hpp"
#include "schedule/table.hpp"

namespace plansearch {

ComputeOrder gpipe_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  std::vector<ComputeStep> steps;
  for (const Phase phase : {Phase::Forward, Phase::Backward}) {
    for (int i = 0; i < shape.micro_batches; ++i) steps.push_back({0, i, phase});
  }
  order.devices.assign(static_cast<std::size_t>(shape.stages), steps);
  return order;
}

Schedule gpipe_schedule() {
  Schedule row;
  row.name = "gpipe";
  row.summary = "all forwards, then all backwards";
  row.placement = &looped_mapping();
  row.order = gpipe_order;
  row.chunk_by_chunk = true;
  row.bound = flow_shop_makespan;
  row.estimate = flow_shop_makespan;
  row.warm_up = [](const PipelineShape& shape, int) { return shape.micro_batches - 1; };
  return row;
}

}  // namespace plansearch
