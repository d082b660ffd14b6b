// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of DualPipeV.
// Source:     deepseek-ai/DualPipe@3da1bbe, dualpipev.py; ScheduleDualPipeV of
//             torch.distributed.pipelining: DualPipe cut in half, the directions are the legs of a
//             V.
// Assumes:    overlapped pieces as long as the times say.
// Units:      none.
// Checked by: tests/unit/schedule/orders/dualpipe_v_test.cpp
#include "schedule/orders/dual_phases.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

ComputeOrder dualpipe_v_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  for (int device = 0; device < shape.stages; ++device) {
    order.devices.push_back(dual_phases({shape.stages, device, shape.micro_batches}));
  }
  return order;
}

std::optional<ShapeFault> too_few_micro_batches(const PipelineShape& shape) {
  const int fewest = 2 * shape.stages;
  if (shape.micro_batches >= fewest) return std::nullopt;
  return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {fewest}};
}

}  // namespace

Schedule dualpipe_v_schedule() {
  Schedule row;
  row.name = "dualpipe-v";
  row.aliases = {"dualpipev"};
  row.summary = "two chunks in a V, forward over backward: dualpipe on half the devices";
  row.needs = "m at least 2 p";
  row.placement = &snake_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.joins = true;
  row.order = dualpipe_v_order;
  row.fault = too_few_micro_batches;
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, 2 * shape.stages}; };
  return row;
}

}  // namespace plansearch
