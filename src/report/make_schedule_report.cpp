// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include "plansearch/error.hpp"
#include "report/schedule_report.hpp"
#include "schedule/closed_form.hpp"

namespace plansearch {
namespace {

/// More slots than this in a row, or more devices, are no picture any more.
constexpr std::size_t kMostSlots = 200;
constexpr int kMostRows = 64;

/// Drawn where it is small enough to be read.
std::optional<Grid> draw(const PipelineShape& shape, const PipelineDurations& times,
                         const PipelineResult& result) {
  const std::size_t pieces = std::size_t{3} * static_cast<std::size_t>(shape.micro_batches) *
                             static_cast<std::size_t>(shape.chunks);
  if (shape.stages > kMostRows || pieces > kMostSlots) return std::nullopt;
  const auto drawn = simulate_order(std::get<ComputeOrder>(make_order(shape)), times.view());
  const auto* timeline = std::get_if<Timeline>(&drawn);
  if (timeline == nullptr) return std::nullopt;
  const Ticks slot = common_slot(*timeline);
  if (result.makespan / slot > static_cast<Ticks>(kMostSlots)) return std::nullopt;
  return make_grid(*timeline, slot);
}

PipelineDurations durations_of(const PipelineShape& shape, const UniformTimes& whole) {
  const Ticks chunks = shape.chunks;
  UniformTimes chunk{whole.forward / chunks, whole.backward / chunks, whole.transfer,
                     whole.weight / chunks};
  if (whole.overlapped) chunk.overlapped = *whole.overlapped / chunks;
  return uniform_durations(shape, chunk);
}

}  // namespace

ScheduleReport report_schedule(const PipelineShape& shape, const ScheduleTimes& times) {
  ScheduleReport report{shape, times, {}, {}, 0, std::nullopt};
  const PipelineDurations durations = durations_of(shape, times.device);
  PipelineSimulator simulator;
  report.result = simulator.run(shape, durations.view());
  report.summary = summarize(shape, report.result);
  report.bound = order_bound(shape, durations.view());
  report.grid = draw(shape, durations, report.result);
  return report;
}

SimulatedProgram simulated_schedule(const ScheduleReport& report) {
  const auto order = std::get<ComputeOrder>(make_order(report.shape));
  const PipelineDurations durations = durations_of(report.shape, report.times.device);
  auto simulated =
      simulate_program(lower(order), duration_table(durations.view(), order.weight_gradients));
  PLANSEARCH_CHECK(std::holds_alternative<SimulatedProgram>(simulated));
  return std::get<SimulatedProgram>(std::move(simulated));
}

}  // namespace plansearch
