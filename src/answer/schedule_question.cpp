// SPDX-License-Identifier: Apache-2.0
#include "answer/schedule_question.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/names.hpp"
#include "io/plan/schedule_csv.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

ScheduleId named_schedule(const std::string& name) {
  if (const auto id = io::find_or_read_schedule(name)) return *id;
  const std::string guess = did_you_mean(name, schedule_names());
  throw InputError({}, fmt::format("unknown schedule '{}'", name),
                   guess.empty()
                       ? fmt::format("one of {}, or a .csv file", fmt::join(schedule_names(), ", "))
                       : guess);
}

int required(const char* flag, const std::optional<int>& value) {
  if (!value) throw InputError({}, fmt::format("schedule: {} is missing", flag), "give a number");
  return *value;
}

int chunks_of(const ScheduleQuestion& question, const Schedule& row) {
  if (!question.waves) return question.chunks.value_or(row.chunks.fewest);
  if (row.chunks_per_wave == 0) {
    throw InputError({}, fmt::format("{} has no waves", row.name), "--chunks says how many chunks");
  }
  const int chunks = row.chunks_per_wave * *question.waves;
  if (question.chunks.value_or(chunks) != chunks) {
    throw InputError({},
                     fmt::format("--chunks {} with --waves {}", *question.chunks, *question.waves),
                     fmt::format("a wave of {} is {} chunks", row.name, row.chunks_per_wave));
  }
  return chunks;
}

std::string orders_of_passes() {
  std::vector<std::string> names;
  for (const ScheduleId id : all_schedules()) {
    if (schedule_row(id).several_forwards) names.emplace_back(to_text(id));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

PipelineShape shape_of(const ScheduleQuestion& question) {
  if (question.name.empty()) {
    throw InputError({}, "schedule: name is required",
                     "one of plansearch list schedules, or --blocks FILE");
  }
  if (question.times.empty()) {
    throw InputError({}, "schedule: --times is required", "F,B: forward and backward of one stage");
  }
  PipelineShape shape;
  shape.schedule = named_schedule(question.name);
  const Schedule& row = schedule_row(shape.schedule);
  if (row.given != nullptr) {
    shape.stages = question.stages.value_or(static_cast<int>(row.given->devices.size()));
    shape.micro_batches = question.micro_batches.value_or(row.given->micro_batches);
  } else {
    shape.stages = required("--stages", question.stages);
    shape.micro_batches = required("--micro-batches", question.micro_batches);
  }
  shape.chunks = chunks_of(question, row);
  constexpr int kUsual = 3;
  shape.forwards = question.forwards.value_or(row.several_forwards ? kUsual : 1);
  shape.group = question.group;
  shape.memory_cap = question.memory_cap;
  if (const auto obstacle = obstacle_of(shape)) {
    throw InputError({}, obstacle->detail,
                     shape.forwards > 1 && !row.several_forwards
                         ? fmt::format("orders of several passes: {}", orders_of_passes())
                         : "plansearch list schedules says what each needs");
  }
  return shape;
}

}  // namespace

std::string order_csv(const ScheduleQuestion& question, const ScheduleReport& report) {
  if (report.shape.forwards > 1) {
    throw InputError({}, "files of PyTorch's pipelining know one forward pass of a micro-batch",
                     "--format json, or --trace");
  }
  const ComputeOrder order = order_of(report.shape);
  return question.lowered ? io::to_lowered_csv(order) : io::to_schedule_csv(order);
}

ScheduleReport answer(const ScheduleQuestion& question) {
  const PipelineShape shape = shape_of(question);
  return report_schedule(shape, read_times(question.times, question.p2p, shape.chunks));
}

}  // namespace plansearch
