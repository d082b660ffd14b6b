// SPDX-License-Identifier: Apache-2.0
#include "plan/stages/pipeline_shape.hpp"

#include <algorithm>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Micro-batches that pass a chunk in a row; nothing where the schedule has no groups, or groups of
/// as many as there are stages.
std::optional<int> group_of(const PlanDegrees& plan, const Framework& framework) {
  if (schedule_row(plan.schedule).groups == Groups::None) return std::nullopt;
  if (framework.micro_batch_groups == MicroBatchGroups::Stages) return std::nullopt;
  // As even as whole rounds of at least `stages` can be.
  const int rounds = std::max(1, plan.micro_batches / plan.pipeline);
  const int group = plan.micro_batches / rounds;
  return group == plan.pipeline ? std::nullopt : std::optional(group);
}

}  // namespace

PipelineShape pipeline_shape(const PlanDegrees& plan, const Framework& framework,
                             const Network& network) {
  PipelineShape shape;
  shape.schedule = plan.schedule;
  shape.stages = plan.pipeline;
  shape.chunks = plan.chunks;
  shape.micro_batches = plan.micro_batches;
  shape.forwards = shape.stages * shape.chunks == 1 ? 1 : network.forwards;
  shape.group = group_of(plan, framework);
  shape.memory_cap = framework.memory_cap;
  const double hidden = framework.overlap[static_cast<std::size_t>(Overlap::PipelineSend)].share;
  shape.transfers = hidden > 0.0 ? TransferMode::Asynchronous : TransferMode::Blocking;
  return shape;
}

std::vector<ScheduleId> schedules_of(const Framework& framework) {
  const auto& listed = framework.schedules;
  std::vector<ScheduleId> result;
  for (const ScheduleId id : all_schedules()) {
    if (std::ranges::find(listed, to_text(id)) != listed.end()) result.push_back(id);
  }
  return result;
}

OptimizerStart optimizer_start(const Framework& framework, ScheduleId schedule) {
  const bool goes_on = framework.optimizer_start == OptimizerStart::PostValidated;
  return goes_on && !splits_backward(schedule) ? OptimizerStart::Together
                                               : framework.optimizer_start;
}

bool exchange_is_joined(const Framework& framework, const Network& network) {
  return network.routing.has_value() && network.forwards == 1 &&
         framework.overlap[static_cast<std::size_t>(Overlap::ExpertAllToAll)].joined;
}

bool joins_passes(const Framework& framework, const Network& network, ScheduleId schedule) {
  return schedule_row(schedule).joins && exchange_is_joined(framework, network);
}

bool suits(ScheduleId schedule, const Network& network) {
  return schedule_row(schedule).several_forwards == (network.forwards > 1);
}

ScheduleId default_schedule(const Framework& framework, const Network& network, int stages,
                            int chunks) {
  const auto fits = [&](ScheduleId id) { return schedule_row(id).chunks.contains(chunks); };
  if (stages == 1 && fits(kDefaultSchedule)) return kDefaultSchedule;
  const auto takes = [&](ScheduleId id) { return fits(id) && suits(id, network); };
  std::vector<ScheduleId> candidates = schedules_of(framework);
  const auto plain = std::ranges::find(candidates, kDefaultSchedule);
  if (plain != candidates.end()) std::rotate(candidates.begin(), plain, plain + 1);
  candidates.insert(candidates.end(), all_schedules().begin(), all_schedules().end());
  const auto best = std::ranges::find_if(candidates, takes);
  return best != candidates.end() ? *best : *std::ranges::find_if(candidates, fits);
}

}  // namespace plansearch
