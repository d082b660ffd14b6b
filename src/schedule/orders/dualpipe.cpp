// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of DualPipe.
// Source:     DeepSeek-V3 (arXiv 2412.19437), figure 5; deepseek-ai/DualPipe@3da1bbe, dualpipe.py.
// Assumes:    overlapped pieces as long as the times say; p even, both directions equal.
// Units:      none.
// Checked by: tests/unit/schedule/orders/dualpipe_test.cpp
#include "schedule/orders/dual_phases.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// The two halves of the pipeline mirror each other: the replica that enters at the nearer end
/// comes first.
ComputeOrder dualpipe_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  const int half = shape.stages / 2;
  const int each = shape.micro_batches / 2;
  for (int device = 0; device < shape.stages; ++device) {
    DualDevice dual{half, device, each, {0, 1}, {0, each}};
    if (device >= half) dual = {half, shape.stages - 1 - device, each, {1, 0}, {each, 0}};
    order.devices.push_back(dual_phases(dual));
  }
  return order;
}

std::optional<ShapeFault> odd_or_too_few(const PipelineShape& shape) {
  if (shape.stages % 2 != 0) return ShapeFault{ShapeField::Stages, shape.stages, {2, 2}};
  if (shape.micro_batches % 2 == 0 && shape.micro_batches >= 2 * shape.stages) return std::nullopt;
  return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {2 * shape.stages, 2}};
}

}  // namespace

Schedule dualpipe_schedule() {
  Schedule row;
  row.name = "dualpipe";
  row.summary = "two replicas in opposite directions, forward over backward: weights twice";
  row.needs = "p even, m even and at least 2 p";
  row.placement = &bidirectional_mapping();
  row.fewest_stages = 2;
  row.weight_gradients = WeightGradients::Separate;
  row.joins = true;
  row.order = dualpipe_order;
  row.fault = odd_or_too_few;
  row.repetition = [](const PipelineShape& shape) { return Repetition{2, 2 * shape.stages}; };
  return row;
}

}  // namespace plansearch
