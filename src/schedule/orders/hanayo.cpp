// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of Hanayo's wave pipelines.
// Source:     Liu et al., Hanayo (SC 2023); the rule of choice is ours: backwards first, then the
//             forward that is furthest along.
// Assumes:    order fixed by the clock of equal pieces; as many micro-batches in flight as stages.
// Units:      clock ticks of one piece.
// Checked by: tests/unit/schedule/orders/hanayo_test.cpp
#include "schedule/orders/clock.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

ComputeOrder hanayo_order(const PipelineShape& shape) {
  return clocked_order(shape, shape.stages);
}

std::optional<ShapeFault> odd_chunks(const PipelineShape& shape) {
  if (shape.chunks % 2 == 0) return std::nullopt;
  return ShapeFault{ShapeField::Chunks, shape.chunks, {2, 2}};
}

}  // namespace

Schedule hanayo_schedule() {
  Schedule row;
  row.name = "hanayo";
  row.aliases = {"wave"};
  row.summary =
      "waves there and back over the devices, two chunks each: 1f1b's bubble over 2 waves";
  row.needs = "an even number of chunks";
  row.placement = &snake_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, std::nullopt};
  row.chunks_per_wave = 2;
  row.order = hanayo_order;
  row.fault = odd_chunks;
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{shape.stages, shape.stages};
  };
  return row;
}

}  // namespace plansearch
