// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute orders of V-Half and V-Min, which repeat one pattern of slots on a V of
//             two chunks.
// Source:     Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section
//             3: uniform repetition, weight gradients in the gaps, then squeezed, which running in
//             order does by itself; sail-sg/zero-bubble-pipeline-parallelism@39f2c186,
//             zbv_greedy.py (its reordering of warm-up and drain is left out).
// Assumes:    no two pieces of a device in one slot: offsets that differ modulo 6; equal pieces:
//             with others it runs, but bubbles come back.
// Units:      slots of one piece.
// Checked by: tests/unit/schedule/orders/v_half_test.cpp, v_min_test.cpp
#include <array>
#include <deque>
#include <map>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Slots of the first micro-batch on one device: forward of the first and of the second chunk,
/// backward of the second and of the first. Six slots later the next one follows.
using VSlots = std::array<int, 4>;

constexpr int kPeriod = 6;  // pieces of one micro-batch on a device: two chunks, three phases

std::vector<ComputeStep> device_steps(const VSlots& slots, int micro_batches) {
  constexpr std::array<ComputeStep, 4> kPieces{{{0, 0, Phase::Forward},
                                                {1, 0, Phase::Forward},
                                                {1, 0, Phase::Backward},
                                                {0, 0, Phase::Backward}}};
  std::map<int, ComputeStep> at;
  for (std::size_t piece = 0; piece < kPieces.size(); ++piece) {
    for (int i = 0; i < micro_batches; ++i) {
      ComputeStep step = kPieces[piece];
      step.micro_batch = i;
      at.emplace(slots[piece] + kPeriod * i, step);
    }
  }
  std::vector<ComputeStep> steps;
  std::deque<ComputeStep> weights;
  const auto run_weight = [&] {
    steps.push_back(weights.front());
    weights.pop_front();
  };
  int now = 0;
  for (const auto& [slot, step] : at) {
    for (; now < slot && !weights.empty(); ++now) run_weight();
    now = slot + 1;
    steps.push_back(step);
    if (step.phase != Phase::Backward) continue;
    weights.push_back({step.chunk, step.micro_batch, Phase::WeightGradient});
  }
  while (!weights.empty()) run_weight();
  return steps;
}

/// Every device runs its pieces in the order of their slots; weight gradients, oldest first, take
/// the slots in between.
template <VSlots (*kSlots)(int stages, int device)>
ComputeOrder v_pattern_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  for (int device = 0; device < shape.stages; ++device) {
    order.devices.push_back(device_steps(kSlots(shape.stages, device), shape.micro_batches));
  }
  return order;
}

/// Forwards go down the V at half speed; the gap keeps slots apart where p is even.
VSlots half_slots(int stages, int device) {
  const int gap = stages % 2 == 0 ? 3 : 0;
  return {2 * device, 3 * stages - device - 2, 3 * stages + gap + 2 * device - 1,
          6 * stages + gap - device - 2};
}

/// Every piece right after its input; the gap keeps slots apart where p is a multiple of 3.
VSlots min_slots(int stages, int device) {
  const int gap = stages % 3 == 0 ? 2 : 0;
  return {device, 2 * stages - device - 1, 2 * stages + gap + device,
          4 * stages + gap - device - 1};
}

Schedule on_a_v() {
  Schedule row;
  row.placement = &snake_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, shape.stages}; };
  return row;
}

}  // namespace

Schedule v_half_schedule() {
  Schedule row = on_a_v();
  row.name = "v-half";
  row.aliases = {"vhalf"};
  row.summary = "two chunks in a V: half the activations of 1f1b";
  row.order = v_pattern_order<half_slots>;
  return row;
}

Schedule v_min_schedule() {
  Schedule row = on_a_v();
  row.name = "v-min";
  row.aliases = {"vmin"};
  row.summary = "two chunks in a V: a third of the activations of 1f1b";
  row.order = v_pattern_order<min_slots>;
  return row;
}

}  // namespace plansearch
