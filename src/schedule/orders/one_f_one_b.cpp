// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of 1F1B (PipeDream-flush).
// Source:     Narayanan et al. (SC 2021); alpa-projects/alpa@b8078a9f schedules.py.
// Assumes:    one chunk per device.
// Units:      none.
// Checked by: tests/unit/schedule/orders_test.cpp
#include <algorithm>

#include "schedule/compute_order.hpp"

namespace plansearch {

ComputeOrder one_f_one_b_order(const PipelineShape& shape) {
  ComputeOrder order;
  order.pipeline = looped_pipeline(shape.stages, 1);
  order.micro_batches = shape.micro_batches;
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

}  // namespace plansearch
