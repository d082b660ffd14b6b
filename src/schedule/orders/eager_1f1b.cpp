// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of eager 1F1B.
// Source:     Zhuang et al. (arXiv 2211.05322); alpa-projects/alpa@b8078a9f schedules.py.
// Assumes:    one chunk per device.
// Units:      none.
// Checked by: tests/unit/schedule/orders/eager_1f1b_test.cpp
#include <algorithm>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Twice as many forwards ahead as 1F1B, so that a transfer has a whole micro-batch of time.
ComputeOrder eager_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  const int m = shape.micro_batches;
  for (int device = 0; device < shape.stages; ++device) {
    const int warm = std::min(m, 2 * (shape.stages - device) - 1);
    std::vector<ComputeStep> steps;
    for (int i = 0; i < warm; ++i) steps.push_back({0, i, Phase::Forward});
    for (int i = 0; i < m; ++i) {
      steps.push_back({0, i, Phase::Backward});
      if (warm + i < m) steps.push_back({0, warm + i, Phase::Forward});
    }
    order.devices.push_back(std::move(steps));
  }
  return order;
}

}  // namespace

Schedule eager_1f1b_schedule() {
  Schedule row;
  row.name = "eager-1f1b";
  row.aliases = {"1f1b-overlap-friendly"};
  row.summary = "1f1b further ahead: transfers hide, twice the activations";
  row.placement = &looped_mapping();
  row.order = eager_order;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, 2 * shape.stages}; };
  return row;
}

}  // namespace plansearch
