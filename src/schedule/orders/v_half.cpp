// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of V-Half.
// Source:     Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362);
//             sail-sg/zero-bubble-pipeline-parallelism@39f2c186, zbv_greedy.py (its reordering of
//             warm-up and drain is left out).
// Assumes:    equal pieces: with others it runs, but bubbles come back.
// Units:      slots of one piece.
// Checked by: tests/unit/schedule/orders/v_half_test.cpp
#include "schedule/orders/v_pattern.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Forwards go down the V at half speed; the gap keeps slots apart where p is even.
VSlots slots(int stages, int device) {
  const int gap = stages % 2 == 0 ? 3 : 0;
  return {2 * device, 3 * stages - device - 2, 3 * stages + gap + 2 * device - 1,
          6 * stages + gap - device - 2};
}

ComputeOrder v_half_order(const PipelineShape& shape) {
  return v_pattern_order(shape, slots);
}

}  // namespace

Schedule v_half_schedule() {
  Schedule row;
  row.name = "v-half";
  row.aliases = {"vhalf"};
  row.summary = "two chunks in a V: half the activations of 1f1b";
  row.placement = &snake_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.order = v_half_order;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, shape.stages}; };
  return row;
}

}  // namespace plansearch
