// SPDX-License-Identifier: Apache-2.0
// Computes: the compute order of Chimera's bidirectional pipelines.
// Source: Li and Hoefler, Chimera (SC 2021): two replicas of the network in opposite directions,
//         half of the micro-batches each; units of p micro-batches follow one another without a
//         gap. The paper draws the order; the rule of choice is ours.
// Assumes: order fixed by the clock of equal pieces; p / 2 micro-batches in flight per direction.
// Units: clock ticks of one piece.
// Checked by: tests/unit/schedule/orders/chimera_test.cpp
#include "schedule/orders/clock.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

ComputeOrder chimera_order(const PipelineShape& shape) {
  return clocked_order(shape, shape.stages / 2);
}

std::optional<ShapeFault> odd_stages_or_part_of_a_unit(const PipelineShape& shape) {
  if (shape.stages % 2 != 0) return ShapeFault{ShapeField::Stages, shape.stages, {2, 2}};
  if (shape.micro_batches % shape.stages == 0) return std::nullopt;
  return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {shape.stages, shape.stages}};
}

}  // namespace

Schedule chimera_schedule() {
  Schedule row;
  row.name = "chimera";
  row.summary = "two replicas in opposite directions fill each other's bubble: weights twice";
  row.needs = "p even, m a multiple of p";
  row.placement = &bidirectional_mapping();
  row.fewest_stages = 2;
  row.order = chimera_order;
  row.fault = odd_stages_or_part_of_a_unit;
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{shape.stages, shape.stages};
  };
  return row;
}

}  // namespace plansearch
