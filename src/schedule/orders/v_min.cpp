// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of V-Min.
// Source:     Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362);
//             sail-sg/zero-bubble-pipeline-parallelism@39f2c186, zbv_greedy.py (its reordering of
//             warm-up and drain is left out).
// Assumes:    equal pieces: with others it runs, but bubbles come back.
// Units:      slots of one piece.
// Checked by: tests/unit/schedule/orders/v_min_test.cpp
#include "schedule/orders/v_pattern.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Every piece right after its input; the gap keeps slots apart where p is a multiple of 3.
VSlots slots(int stages, int device) {
  const int gap = stages % 3 == 0 ? 2 : 0;
  return {device, 2 * stages - device - 1, 2 * stages + gap + device,
          4 * stages + gap - device - 1};
}

ComputeOrder v_min_order(const PipelineShape& shape) {
  return v_pattern_order(shape, slots);
}

}  // namespace

Schedule v_min_schedule() {
  Schedule row;
  row.name = "v-min";
  row.aliases = {"vmin"};
  row.summary = "two chunks in a V: a third of the activations of 1f1b";
  row.placement = &snake_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.order = v_min_order;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, shape.stages}; };
  return row;
}

}  // namespace plansearch
