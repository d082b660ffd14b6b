// SPDX-License-Identifier: Apache-2.0
// Computes:   legality of a pipeline's shape, and equal durations for all its stages.
// Source:     Megatron-LM core/pipeline_parallel/schedules.py (groups of micro-batches).
// Assumes:    looped placement of virtual stages.
// Units:      ticks.
// Checked by: tests/unit/schedule/pipeline_test.cpp
#include "schedule/pipeline.hpp"

#include <string>

#include "plansearch/error.hpp"

namespace plansearch {

namespace {

Infeasible refuse(Obstacle obstacle, int needed, int available, std::string detail) {
  return {obstacle, static_cast<double>(needed), static_cast<double>(available), std::move(detail)};
}

std::optional<Infeasible> interleaved_obstacle(const PipelineShape& shape) {
  const int group = shape.group_size();
  const int rest = shape.micro_batches % group;
  if (shape.chunks == 1) return std::nullopt;  // plain 1F1B
  if (shape.stages < 2) {
    return refuse(Obstacle::NoSuchFeature, 2, shape.stages,
                  "interleaving needs at least 2 pipeline stages");
  }
  if (group < shape.stages) {
    return refuse(Obstacle::ScheduleNeedsMicroBatches, shape.stages, group,
                  "a group of micro-batches needs at least as many as there are stages (" +
                      std::to_string(shape.stages) + ")");
  }
  if (shape.micro_batches < group || (rest != 0 && rest < shape.stages)) {
    return refuse(Obstacle::ScheduleNeedsMicroBatches, group, shape.micro_batches,
                  "interleaved 1F1B over " + std::to_string(shape.stages) +
                      " stages needs a multiple of " + std::to_string(group) +
                      " micro-batches, not " + std::to_string(shape.micro_batches));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Infeasible> obstacle_of(const PipelineShape& shape) {
  if (shape.stages < 1 || shape.chunks < 1 || (shape.group && *shape.group < 1)) {
    return refuse(Obstacle::NoSuchFeature, 1, std::min(shape.stages, shape.chunks),
                  "a pipeline has at least 1 stage, 1 chunk and groups of 1 micro-batch");
  }
  if (shape.micro_batches < 1) {
    return refuse(Obstacle::ScheduleNeedsMicroBatches, 1, shape.micro_batches,
                  "a step has at least 1 micro-batch");
  }
  if (shape.schedule == ScheduleKind::Interleaved) return interleaved_obstacle(shape);
  if (shape.chunks > 1) {
    return refuse(Obstacle::NoSuchFeature, 1, shape.chunks,
                  "only the interleaved schedule has more than 1 chunk per stage");
  }
  if (shape.group) {
    return refuse(Obstacle::NoSuchFeature, 0, *shape.group,
                  "only the interleaved schedule has groups of micro-batches");
  }
  return std::nullopt;
}

PipelineDurations uniform_durations(const PipelineShape& shape, UniformTimes times) {
  const auto count = static_cast<std::size_t>(shape.virtual_stages());
  PipelineDurations result;
  result.forward.assign(count, times.forward);
  result.backward.assign(count, times.backward);
  result.activation_transfer.assign(count - 1, times.transfer);
  result.gradient_transfer.assign(count - 1, times.transfer);
  return result;
}

void check_times(const PipelineShape& shape, const PipelineTimes& times) {
  const auto count = static_cast<std::size_t>(shape.virtual_stages());
  PLANSEARCH_CHECK(times.forward.size() == count);
  PLANSEARCH_CHECK(times.backward.size() == count);
  PLANSEARCH_CHECK(times.weight_gradient.empty() || times.weight_gradient.size() == count);
  PLANSEARCH_CHECK(times.activation_transfer.size() == count - 1);
  PLANSEARCH_CHECK(times.gradient_transfer.size() == count - 1);
  for (const auto& durations : {times.forward, times.backward, times.weight_gradient,
                                times.activation_transfer, times.gradient_transfer}) {
    for (const Ticks duration : durations) PLANSEARCH_CHECK(duration >= 0);
  }
}

}  // namespace plansearch
