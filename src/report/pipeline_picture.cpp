// SPDX-License-Identifier: Apache-2.0
#include "report/pipeline_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "base/units.hpp"
#include "plan/pipeline_shape.hpp"
#include "schedule/table.hpp"
#include "schedule/timeline.hpp"

namespace plansearch {
namespace {

constexpr int kColumns = 88;  // behind "stage 12 | "
constexpr int kMostRows = 16;

/// The plan's pipeline with as few micro-batches as fill it and show its middle.
PipelineShape drawn_shape(const PlanDegrees& plan, const Framework& framework) {
  PlanDegrees drawn = plan;
  const int most = plan.micro_batches;
  drawn.micro_batches = std::min(most, plan.pipeline + 4);
  while (fault_of(pipeline_shape(drawn, framework)) && drawn.micro_batches < most) {
    ++drawn.micro_batches;
  }
  return pipeline_shape(drawn, framework);
}

/// The chunks of a stage share its time evenly.
PipelineDurations durations_of(const ComputeOrder& order, const std::vector<StageReport>& stages) {
  PipelineDurations times;
  const double chunks = order.chunks();
  const bool split = order.weight_gradients == WeightGradients::Separate;
  for (const StagePlace& place : order.pipeline) {
    const StageReport& stage = stages[static_cast<std::size_t>(place.device)];
    const Seconds apart = split ? stage.weight_gradient : Seconds(0);
    times.forward.push_back(to_ticks(stage.forward / chunks));
    times.backward.push_back(to_ticks((stage.backward - apart) / chunks));
    if (split) times.weight_gradient.push_back(to_ticks(apart / chunks));
    times.activation_transfer.push_back(to_ticks(stage.edge_time));
  }
  times.activation_transfer.pop_back();
  times.gradient_transfer = times.activation_transfer;
  return times;
}

char sign_of(const ComputeStep& step) {
  if (step.phase == Phase::WeightGradient) return '=';
  return static_cast<char>((step.phase == Phase::Forward ? '0' : 'a') + step.micro_batch % 10);
}

/// What runs in the middle of each column.
std::vector<std::string> strips(const Timeline& timeline) {
  std::vector<std::string> rows(static_cast<std::size_t>(timeline.devices),
                                std::string(kColumns, '.'));
  const double column = static_cast<double>(timeline.makespan()) / kColumns;
  for (const TimelineEntry& entry : timeline.entries) {
    std::string& row = rows[static_cast<std::size_t>(entry.device)];
    for (int c = 0; c < kColumns; ++c) {
      const double middle = (c + 0.5) * column;
      if (middle >= static_cast<double>(entry.start) && middle < static_cast<double>(entry.end)) {
        row[static_cast<std::size_t>(c)] = sign_of(entry.step);
      }
    }
  }
  return rows;
}

std::string drawing(const Timeline& timeline) {
  const std::vector<std::string> rows = strips(timeline);
  const int stages = timeline.devices;
  const int shown = std::min(stages, kMostRows);
  std::string text;
  for (int i = 0; i < shown; ++i) {
    const int stage = shown == 1 ? 0 : i * (stages - 1) / (shown - 1);
    text += fmt::format("stage {:<2} | {}\n", stage, rows[static_cast<std::size_t>(stage)]);
  }
  return text;
}

}  // namespace

std::string pipeline_picture(const PlanReport& plan, const Framework& framework) {
  const PlanDegrees& degrees = plan.plan.degrees;
  if (degrees.pipeline == 1) return {};
  const PipelineShape shape = drawn_shape(degrees, framework);
  const auto order = make_order(shape);
  if (std::holds_alternative<Infeasible>(order)) return {};
  const PipelineDurations times = durations_of(std::get<ComputeOrder>(order), plan.stages);
  LoweringOptions sends;
  if (shape.transfers == TransferMode::Blocking) sends.sends = SendPolicy::Blocking;
  const auto simulated = simulate_order(std::get<ComputeOrder>(order), times.view(), sends);
  if (std::holds_alternative<ProgramFault>(simulated)) return {};
  const auto& timeline = std::get<Timeline>(simulated);
  return fmt::format(
      "{} pipeline, the plan's own times, {} of {} micro-batches, {} of {} stages, a column is {}\n"
      "{}0-9: forward of a micro-batch; a-j: backward{}; .: waiting\n",
      to_text(shape.schedule), shape.micro_batches, degrees.micro_batches,
      std::min(shape.stages, kMostRows), shape.stages,
      to_text(to_seconds(timeline.makespan() / kColumns)), drawing(timeline),
      splits_backward(shape.schedule) ? "; =: weight gradient" : "");
}

}  // namespace plansearch
