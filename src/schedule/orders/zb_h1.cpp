// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of ZB-H1.
// Source:     Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 2.1;
//             sail-sg/zero-bubble-pipeline-parallelism@39f2c186.
// Assumes:    a weight gradient may run any time after the input gradient of the same micro-batch.
// Units:      none.
// Checked by: tests/unit/schedule/orders/zb_h1_test.cpp
#include <algorithm>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// As 1F1B, with as many micro-batches in flight on every device as 1F1B has on the first: device r
/// starts its weight gradients r micro-batches late, and the late ones fill the drain.
ComputeOrder zb_h1_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  const int m = shape.micro_batches;
  for (int device = 0; device < shape.stages; ++device) {
    const int warm = std::min(shape.stages - 1 - device, m);
    std::vector<ComputeStep> steps;
    for (int i = 0; i < warm; ++i) steps.push_back({0, i, Phase::Forward});
    int weight = 0;
    for (int i = 0; i < m; ++i) {
      const bool draining = warm + i >= m;
      if (!draining) steps.push_back({0, warm + i, Phase::Forward});
      steps.push_back({0, i, Phase::Backward});
      if (draining || i >= device) steps.push_back({0, weight++, Phase::WeightGradient});
    }
    while (weight < m) steps.push_back({0, weight++, Phase::WeightGradient});
    order.devices.push_back(std::move(steps));
  }
  return order;
}

}  // namespace

Schedule zb_h1_schedule() {
  Schedule row;
  row.name = "zb-h1";
  row.aliases = {"zb1p", "zbh1", "zb-1p"};
  row.summary = "1f1b with weight gradients in the bubble: a third of it left, no more memory";
  row.placement = &looped_mapping();
  row.weight_gradients = WeightGradients::Separate;
  row.order = zb_h1_order;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, shape.stages}; };
  return row;
}

}  // namespace plansearch
