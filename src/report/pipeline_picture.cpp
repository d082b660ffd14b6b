// SPDX-License-Identifier: Apache-2.0
#include "report/pipeline_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "schedule/compute_order.hpp"
#include "schedule/timeline.hpp"

namespace plansearch {
namespace {

constexpr int kMostStages = 8;

/// A smaller pipeline of the same kind that still shows its shape.
PipelineShape drawn_shape(const PlanDegrees& plan) {
  PipelineShape shape;
  shape.schedule = plan.schedule;
  shape.stages = std::min(plan.pipeline, kMostStages);
  shape.chunks = std::min(plan.chunks, 2);
  shape.micro_batches = std::min(plan.micro_batches, shape.stages + 4);
  const int most = 4 * shape.stages;
  while (fault_of(shape) && shape.micro_batches < most) ++shape.micro_batches;
  return shape;
}

}  // namespace

std::string pipeline_picture(const PlanDegrees& plan) {
  const PipelineShape shape = drawn_shape(plan);
  const auto order = make_order(shape);
  if (std::holds_alternative<Infeasible>(order)) return {};
  const PipelineDurations durations = uniform_durations(shape, {1, 2, 0});
  const auto timeline = simulate_order(std::get<ComputeOrder>(order), durations.view());
  if (std::holds_alternative<ProgramFault>(timeline)) return {};
  return fmt::format(
      "{} pipeline, {} of {} stages, {} of {} micro-batches, {} of {} chunks; equal stages, "
      "backward = 2 x forward\n{}",
      to_text(plan.schedule), shape.stages, plan.pipeline, shape.micro_batches, plan.micro_batches,
      shape.chunks, plan.chunks, to_text(make_grid(std::get<Timeline>(timeline), 1)));
}

}  // namespace plansearch
