// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute orders of ZB-V, V-Half and V-Min: weight gradients of their own on a V of
//             two chunks. V-Half and V-Min repeat one pattern of slots.
// Source:     Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section
//             3: uniform repetition, weight gradients in the gaps, then squeezed, which running in
//             order does by itself; sail-sg/zero-bubble-pipeline-parallelism@39f2c186,
//             zbv_greedy.py (its reordering of warm-up and drain is left out);
//             ScheduleZBVZeroBubble of torch.distributed.pipelining.
// Assumes:    no two pieces of a device in one slot: offsets that differ modulo 6; equal pieces:
//             with others it runs, but bubbles come back.
// Units:      slots of one piece.
// Checked by: tests/unit/schedule/orders/zb_v_test.cpp, v_half_test.cpp, v_min_test.cpp
#include <array>
#include <deque>
#include <map>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Writes the steps of one device; the first chunk is on the way down the V, the second on the way
/// up.
class Writer {
 public:
  explicit Writer(std::vector<ComputeStep>& steps) : steps_(steps) {}

  void forward(int chunk) { add(chunk, Phase::Forward, forwards_); }
  void backward(int chunk) { add(chunk, Phase::Backward, backwards_); }
  void weight(int chunk) { add(chunk, Phase::WeightGradient, weights_); }
  void all(int chunk) {
    forward(chunk);
    backward(chunk);
    weight(chunk);
  }
  [[nodiscard]] int forwards(int chunk) const { return forwards_[chunk]; }
  void rest_of_weights(int chunk) {
    while (weights_[chunk] < backwards_[chunk]) weight(chunk);
  }

 private:
  void add(int chunk, Phase phase, int (&count)[2]) {
    steps_.push_back({chunk, count[chunk]++, phase});
  }

  std::vector<ComputeStep>& steps_;
  int forwards_[2] = {0, 0};
  int backwards_[2] = {0, 0};
  int weights_[2] = {0, 0};
};

std::vector<ComputeStep> zb_v_steps(const PipelineShape& shape, int device) {
  const int behind = shape.stages - device;
  std::vector<ComputeStep> steps;
  Writer write(steps);
  for (int i = 0; i < 2 * behind - 1; ++i) write.forward(0);
  for (int i = 0; i < device; ++i) {
    write.forward(1);
    write.forward(0);
  }
  for (int i = 0; i < behind; ++i) write.all(1);
  while (write.forwards(1) < write.forwards(0) || write.forwards(0) < shape.micro_batches) {
    if (write.forwards(0) < shape.micro_batches) write.forward(0);
    write.backward(0);
    write.weight(0);
    write.all(1);
  }
  for (int i = 0; i < device; ++i) {
    write.backward(0);
    write.backward(1);
  }
  for (int i = 0; i < behind; ++i) {
    write.backward(0);
    write.weight(0);
  }
  write.rest_of_weights(1);
  write.rest_of_weights(0);
  return steps;
}

/// Slots of the first micro-batch on one device: forward of the first and of the second chunk,
/// backward of the second and of the first. Six slots later the next one follows.
using VSlots = std::array<int, 4>;

constexpr int kPeriod = 6;  // pieces of one micro-batch on a device: two chunks, three phases

std::vector<ComputeStep> slot_steps(const VSlots& slots, int micro_batches) {
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
  return order_by_device(shape, [&](int device) {
    return slot_steps(kSlots(shape.stages, device), shape.micro_batches);
  });
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

Schedule on_a_v(std::string_view name, std::string_view summary) {
  Schedule row;
  row.name = name;
  row.summary = summary;
  row.placement = &snake_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, shape.stages}; };
  return row;
}

}  // namespace

Schedule zb_v_schedule() {
  Schedule row =
      on_a_v("zb-v", "two chunks in a V, weight gradients in the bubble: as much memory as 1f1b");
  row.aliases = {"zbv"};
  row.needs = "m at least 2 p - 1";
  row.fewest_stages = 1;
  row.order = [](const PipelineShape& shape) {
    return order_by_device(shape, [&](int device) { return zb_v_steps(shape, device); });
  };
  row.fault = [](const PipelineShape& shape) {
    return too_few_micro_batches(shape, 2 * shape.stages - 1);
  };
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, 2 * shape.stages}; };
  return row;
}

Schedule v_half_schedule() {
  Schedule row = on_a_v("v-half", "two chunks in a V: half the activations of 1f1b");
  row.aliases = {"vhalf"};
  row.order = v_pattern_order<half_slots>;
  return row;
}

Schedule v_min_schedule() {
  Schedule row = on_a_v("v-min", "two chunks in a V: a third of the activations of 1f1b");
  row.aliases = {"vmin"};
  row.order = v_pattern_order<min_slots>;
  return row;
}

}  // namespace plansearch
