// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "plansearch/error.hpp"
#include "report/schedule_report.hpp"
#include "schedule/order/order_check.hpp"
#include "schedule/simulation/closed_form.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// More slots than this in a row, or more devices, make a picture that nobody can read.
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

/// Of one virtual stage.
UniformTimes unit_times(const PipelineShape& shape, const UniformTimes& whole) {
  const Ticks chunks = shape.chunks;
  UniformTimes chunk{whole.forward / chunks, whole.backward / chunks, whole.transfer,
                     whole.weight / chunks};
  if (whole.overlapped) chunk.overlapped = *whole.overlapped / chunks;
  return chunk;
}

PipelineDurations durations_of(const PipelineShape& shape, const UniformTimes& whole) {
  return uniform_durations(shape, unit_times(shape, whole));
}

/// Empty where no cap is given or it holds.
std::string too_full(const ScheduleReport& report, const PipelineDurations& times) {
  const PipelineShape& shape = report.shape;
  const auto& peaks = report.summary.peak_activations;
  if (!shape.memory_cap || *std::max_element(peaks.begin(), peaks.end()) <= *shape.memory_cap) {
    return {};
  }
  const ComputeOrder order = order_of(shape);
  const auto simulated = simulate_order(order, times.view());
  const auto* timeline = std::get_if<Timeline>(&simulated);
  PLANSEARCH_CHECK(timeline != nullptr);
  const auto fault = check_memory(order, *timeline, *shape.memory_cap * shape.chunks);
  PLANSEARCH_CHECK(fault.has_value());
  return fmt::format(
      "{} does not fit {} micro-batches: stage {} keeps {:g} from {:g} on, when F{} "
      "starts",
      to_text(shape.schedule), *shape.memory_cap, fault->device,
      static_cast<double>(fault->kept) / shape.chunks,
      static_cast<double>(fault->time) / report.times.ticks_per_unit, fault->step.micro_batch);
}

}  // namespace

ScheduleReport report_schedule(const PipelineShape& asked, const ScheduleTimes& times) {
  const PipelineDurations durations = durations_of(asked, times.device);
  PipelineShape shape = asked;
  if (schedule_row(shape.schedule).tuned) {
    shape.tuned = unit_times(asked, times.device);
    shape = placed_for(shape, durations.view());
  }
  ScheduleReport report{shape, times, {}, {}, 0, {}, std::nullopt};
  PipelineSimulator simulator;
  report.result = simulator.run(shape, durations.view());
  report.summary = summarize(shape, report.result);
  report.bound = order_bound(shape, durations.view());
  report.grid = draw(shape, durations, report.result);
  report.too_full = too_full(report, durations);
  return report;
}

bool can_be_drawn(const ScheduleReport& report) {
  constexpr std::int64_t kMostPieces = 200'000;
  return std::int64_t{3} * report.shape.micro_batches * report.shape.virtual_stages() <=
         kMostPieces;
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
