// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of one stage that runs every forward but the first beside the
//             backward of the micro-batch before.
// Source:     Megatron-LM core/pipeline_parallel/combined_1f1b.py:
//             combined_1f1b_schedule_for_no_pipelining.
// Assumes:    one stage; layer by layer the forward keeps what the backward has freed.
// Units:      none.
// Checked by: tests/unit/schedule/orders_test.cpp, orders/pairs_test.cpp
#include "schedule/table.hpp"

namespace plansearch {
namespace {

ComputeOrder pairs_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  std::vector<ComputeStep> steps{{0, 0, Phase::Forward}};
  for (int i = 0; i < shape.micro_batches; ++i) {
    steps.push_back({0, i, Phase::Backward});
    if (i + 1 < shape.micro_batches) steps.push_back({0, i + 1, Phase::Forward, true});
  }
  order.devices.push_back(std::move(steps));
  return order;
}

std::optional<ShapeFault> one_stage(const PipelineShape& shape) {
  if (shape.stages == 1) return std::nullopt;
  return ShapeFault{ShapeField::Stages, shape.stages, {1, 1, 1}};
}

}  // namespace

Schedule pairs_schedule() {
  Schedule row;
  row.name = "pairs";
  row.summary = "one stage, every forward beside a backward: messages of experts under kernels";
  row.needs = "p = 1";
  row.placement = &looped_mapping();
  row.chunks = {1, 1};
  row.joins = true;
  row.order = pairs_order;
  row.fault = one_stage;
  row.repetition = [](const PipelineShape&) { return Repetition{1, 1}; };
  return row;
}

}  // namespace plansearch
