// SPDX-License-Identifier: Apache-2.0
// Computes:   the order of 3F1B: several forward passes of a micro-batch, one backward.
// Source:     Lin et al., nnScaler (OSDI 2024), figure 2 and table 4: f1 of micro-batch m + 2
//             before f2 of m + 1 before f3 of m before b of m - (S - i) on stage i of S.
// Assumes:    looped placement; every pass ends before the next one of its micro-batch begins.
// Units:      none.
// Checked by: tests/unit/schedule/orders/several_forwards_test.cpp, the figure's rows
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// In turn t a device runs pass p of micro-batch t - p, then the backward of the micro-batch whose
/// last forward has been to the last device and whose gradient has come back.
ComputeOrder passes_in_turn(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  const auto exists = [&](int i) { return i >= 0 && i < shape.micro_batches; };
  for (int device = 0; device < shape.stages; ++device) {
    const int behind = shape.forwards - 1 + shape.stages - 1 - device;
    std::vector<ComputeStep> steps;
    for (int turn = 0; turn < shape.micro_batches + behind; ++turn) {
      for (int pass = 0; pass < shape.forwards; ++pass) {
        if (exists(turn - pass)) steps.push_back({0, turn - pass, Phase::Forward, false, pass});
      }
      if (exists(turn - behind)) steps.push_back({0, turn - behind, Phase::Backward});
    }
    order.devices.push_back(std::move(steps));
  }
  return order;
}

}  // namespace

Schedule several_forwards_schedule() {
  Schedule row;
  row.name = "3f1b";
  row.summary = "passes of a network that is passed several times in turn, then one backward";
  row.needs = "a network that micro-batches pass several times";
  row.placement = &looped_mapping();
  row.several_forwards = true;
  row.order = passes_in_turn;
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{1, shape.stages + shape.forwards};
  };
  return row;
}

}  // namespace plansearch
