// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/names.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "plansearch/error.hpp"
#include "report/schedule_report.hpp"
#include "schedule/table.hpp"

namespace plansearch::cli {
namespace {

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
ScheduleTimes read_times(const ScheduleQuestion& question, int chunks) {
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
    Ticks result = value.digits * chunks;
    for (int i = value.decimals; i < decimals; ++i) {
      if (result > static_cast<Ticks>(kMostTicks) / 10) return static_cast<Ticks>(kMostTicks);
      result *= 10;
    }
    return result;
  };
  ScheduleTimes times{{ticks(values[0]), ticks(values[1]), ticks(values[3]), ticks(values[2])},
                      static_cast<double>(chunks)};
  for (int i = 0; i < decimals; ++i) times.ticks_per_unit *= 10.0;
  return times;
}

}  // namespace

int run_schedule(const Options& options) {
  const Output output(options);
  const PipelineShape shape = shape_of(options.schedule);
  const ScheduleReport report = report_schedule(shape, read_times(options.schedule, shape.chunks));
  const Format format = format_of(options);
  if (format == Format::Table && !report.grid) print_note("too large to be drawn", options);
  output.write(to_text(report, format));
  return kExitOk;
}

}  // namespace plansearch::cli
