// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of ZB-V.
// Source:     Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362);
//             ScheduleZBVZeroBubble of torch.distributed.pipelining.
// Assumes:    equal pieces: with others it runs, but bubbles come back.
// Units:      none.
// Checked by: tests/unit/schedule/orders/zb_v_test.cpp
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

std::vector<ComputeStep> device_steps(const PipelineShape& shape, int device) {
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

ComputeOrder zb_v_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  for (int device = 0; device < shape.stages; ++device) {
    order.devices.push_back(device_steps(shape, device));
  }
  return order;
}

std::optional<ShapeFault> too_few_micro_batches(const PipelineShape& shape) {
  const int fewest = 2 * shape.stages - 1;
  if (shape.micro_batches >= fewest) return std::nullopt;
  return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {fewest}};
}

}  // namespace

Schedule zb_v_schedule() {
  Schedule row;
  row.name = "zb-v";
  row.aliases = {"zbv"};
  row.summary = "two chunks in a V, weight gradients in the bubble: as much memory as 1f1b";
  row.needs = "m at least 2 p - 1";
  row.placement = &snake_mapping();
  row.chunks = {2, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.order = zb_v_order;
  row.fault = too_few_micro_batches;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, 2 * shape.stages}; };
  return row;
}

}  // namespace plansearch
