// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>

#include "base/names.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "plansearch/error.hpp"
#include "problem/write_trace.hpp"
#include "report/schedule_report.hpp"
#include "schedule/table.hpp"

namespace plansearch::cli {
namespace {

ScheduleId named_schedule(const std::string& name) {
  if (const auto id = find_schedule(name)) return *id;
  const std::string guess = did_you_mean(name, schedule_names());
  throw InputError(
      {}, fmt::format("unknown schedule '{}'", name),
      guess.empty() ? fmt::format("one of {}", fmt::join(schedule_names(), ", ")) : guess);
}

int required(const char* flag, const std::optional<int>& value) {
  if (!value) throw InputError({}, fmt::format("schedule: {} is missing", flag), "give a number");
  return *value;
}

PipelineShape shape_of(const ScheduleQuestion& question) {
  PipelineShape shape;
  shape.schedule = named_schedule(question.name);
  shape.stages = required("--stages", question.stages);
  shape.micro_batches = required("--micro-batches", question.micro_batches);
  shape.chunks = question.chunks.value_or(schedule_row(shape.schedule).chunks.fewest);
  shape.group = question.group;
  if (const auto obstacle = obstacle_of(shape)) {
    throw InputError({}, obstacle->detail, "plansearch list schedules says what each needs");
  }
  return shape;
}

}  // namespace

int run_schedule(const Options& options) {
  const Output output(options);
  const PipelineShape shape = shape_of(options.schedule);
  const ScheduleReport report = report_schedule(
      shape, read_times(options.schedule.times, options.schedule.p2p, shape.chunks));
  write_trace(report, options.trace);
  const Format format = format_of(options);
  if (format == Format::Table && !report.grid) print_note("too large to be drawn", options);
  output.write(to_text(report, format));
  return kExitOk;
}

}  // namespace plansearch::cli
