// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of ZB-H2.
// Source:     Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 2.2.
// Assumes:    the optimizer step of a device does not wait for the others (post-validation); the
//             makespan of all devices is longer than the span of each.
// Units:      none.
// Checked by: tests/unit/schedule/orders/zb_h2_test.cpp
#include <algorithm>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Forwards ahead fill the bubble before the first gradient, weight gradients the one after the
/// last: device r starts the latter 2 r micro-batches late.
ComputeOrder zb_h2_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  const int m = shape.micro_batches;
  for (int device = 0; device < shape.stages; ++device) {
    const int warm = std::min(m, 2 * (shape.stages - device) - 1);
    std::vector<ComputeStep> steps;
    for (int i = 0; i < warm; ++i) steps.push_back({0, i, Phase::Forward});
    int weight = 0;
    for (int i = 0; i < m; ++i) {
      steps.push_back({0, i, Phase::Backward});
      if (i >= 2 * device) steps.push_back({0, weight++, Phase::WeightGradient});
      if (warm + i < m) steps.push_back({0, warm + i, Phase::Forward});
    }
    while (weight < m) steps.push_back({0, weight++, Phase::WeightGradient});
    order.devices.push_back(std::move(steps));
  }
  return order;
}

}  // namespace

Schedule zb_h2_schedule() {
  Schedule row;
  row.name = "zb-h2";
  row.aliases = {"zb2p", "zbh2", "zb-2p"};
  row.summary =
      "weight gradients and forwards ahead fill the bubble: twice the activations (all of it from "
      "2 p - 1 micro-batches on)";
  row.placement = &looped_mapping();
  row.weight_gradients = WeightGradients::Separate;
  row.order = zb_h2_order;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, 2 * shape.stages}; };
  return row;
}

}  // namespace plansearch
