// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <variant>
#include <vector>

#include "base/names.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "plansearch/error.hpp"
#include "report/schedule_report.hpp"
#include "schedule/closed_form.hpp"
#include "schedule/table.hpp"

namespace plansearch::cli {
namespace {

/// More slots than this in a row, or more devices, are no picture any more.
constexpr std::size_t kMostSlots = 200;
constexpr int kMostRows = 64;

/// digits x 10^-decimals.
struct Decimal {
  std::int64_t digits = 0;
  int decimals = 0;
};

Decimal parse_decimal(const char* flag, const std::string& text) {
  constexpr std::size_t kMostDigits = 12;
  const std::size_t point = text.find('.');
  std::string digits = text;
  Decimal value;
  if (point != std::string::npos) {
    digits.erase(point, 1);
    value.decimals = static_cast<int>(text.size() - point - 1);
  }
  const bool plain = !digits.empty() && digits.size() <= kMostDigits &&
                     digits.find_first_not_of("0123456789") == std::string::npos;
  if (!plain) {
    throw InputError({}, fmt::format("{}: '{}' is no duration", flag, text),
                     "a number such as 3 or 0.25, up to 12 digits, in any unit of time");
  }
  std::from_chars(digits.data(), digits.data() + digits.size(), value.digits);
  return value;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

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

/// Whole ticks for everything: of a device-stage, a chunk of it, and a transfer.
void read_times(const ScheduleQuestion& question, ScheduleReport& report) {
  const std::vector<std::string> parts = split_at_commas(question.times);
  if (parts.size() < 2 || parts.size() > 3) {
    throw InputError({}, fmt::format("--times {}: {} values", question.times, parts.size()),
                     "F,B or F,B,W: forward, input gradient and weight gradient of one stage");
  }
  std::vector<Decimal> values;
  for (const std::string& part : parts) values.push_back(parse_decimal("--times", part));
  if (values.size() == 2) values.push_back({});
  values.push_back(parse_decimal("--p2p", question.p2p));
  int decimals = 0;
  for (const Decimal& value : values) decimals = std::max(decimals, value.decimals);
  const auto ticks = [&](const Decimal& value) {
    Ticks result = value.digits * report.shape.chunks;
    for (int i = value.decimals; i < decimals; ++i) {
      if (result > static_cast<Ticks>(kMostTicks) / 10) return static_cast<Ticks>(kMostTicks);
      result *= 10;
    }
    return result;
  };
  report.device_times = {ticks(values[0]), ticks(values[1]), ticks(values[3]), ticks(values[2])};
  report.ticks_per_unit = report.shape.chunks;
  for (int i = 0; i < decimals; ++i) report.ticks_per_unit *= 10.0;
}

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

}  // namespace

int run_schedule(const Options& options) {
  const Output output(options);
  ScheduleReport report;
  report.shape = shape_of(options.schedule);
  read_times(options.schedule, report);
  const Ticks chunks = report.shape.chunks;
  const UniformTimes& whole = report.device_times;
  const PipelineDurations times = uniform_durations(
      report.shape,
      {whole.forward / chunks, whole.backward / chunks, whole.transfer, whole.weight / chunks});
  PipelineSimulator simulator;
  report.result = simulator.run(report.shape, times.view());
  report.summary = summarize(report.shape, report.result);
  report.bound = order_bound(report.shape, times.view());
  report.grid = draw(report.shape, times, report.result);
  if (!report.grid) print_note("too large to be drawn", options);
  output.write(to_text(report, format_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
