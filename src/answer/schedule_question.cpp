// SPDX-License-Identifier: Apache-2.0
#include "answer/schedule_question.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "base/units.hpp"
#include "io/plan/blocks_document.hpp"
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

std::optional<int> amount(const std::string& text) {
  constexpr int kMost = 1'000'000;
  const auto value = parse_as<int>(text);
  return value && *value >= 0 && *value <= kMost ? value : std::nullopt;
}

std::vector<std::optional<int>> read_caps(const std::string& text, std::size_t devices) {
  if (text.empty()) return std::vector<std::optional<int>>(devices);
  std::vector<std::optional<int>> caps;
  for (const std::string& part : split(text, ",")) {
    caps.push_back(amount(part));
    if (caps.back()) continue;
    throw InputError({}, fmt::format("--memory-cap: '{}' is not an amount", part),
                     "a whole number for all devices, or one for each: 6,5,4,3");
  }
  if (caps.size() == 1) caps.assign(devices, caps.front());
  if (caps.size() != devices) {
    throw InputError(
        {}, fmt::format("--memory-cap {}: {} amounts for {} devices", text, caps.size(), devices),
        "one for each device, or one for all");
  }
  return caps;
}

/// Where peaks exceed the caps.
std::string too_full(const std::vector<std::optional<int>>& caps, const std::vector<int>& peaks) {
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    if (!caps[d] || peaks[d] <= *caps[d]) continue;
    return fmt::format("device {} keeps {}, and may keep {}", d, peaks[d], *caps[d]);
  }
  return {};
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
  const std::string& times = question.times.empty() ? "1,1,1" : question.times;
  return report_schedule(shape, read_times(times, question.p2p, shape.chunks));
}

std::optional<int> one_cap(const std::string& memory_cap) {
  if (memory_cap.empty()) return std::nullopt;
  const auto cap = amount(memory_cap);
  if (!cap || *cap < 1) {
    throw InputError({},
                     fmt::format("--memory-cap: '{}' is not a number of micro-batches", memory_cap),
                     "a whole number from 1 to 1000000; lists are for --blocks");
  }
  return cap;
}

std::variant<OrderingReport, NoWindow> answer(const OrderingQuestion& question) {
  io::BlocksDocument document = io::read_blocks(question.blocks);
  const auto& in_file = document.micro_batches;
  if (document.starts && question.micro_batches.value_or(*in_file) != *in_file) {
    throw InputError({},
                     fmt::format("--micro-batches {}, and the starts of the file are for {}",
                                 *question.micro_batches, *in_file),
                     "take out 'starts' to have an order searched");
  }
  if (!question.micro_batches && !in_file) {
    throw InputError({}, "schedule --blocks: --micro-batches is missing",
                     "give a number, or micro_batches in the file");
  }
  OrderingReport report{std::move(document.plan), document.ticks_per_unit, {}, 1, false, {}, {}};
  report.micro_batches = question.micro_batches ? *question.micro_batches : *in_file;
  report.caps = read_caps(question.memory_cap, report.plan.devices());
  constexpr std::size_t kMostRuns = 100'000;
  if (report.plan.blocks.size() * static_cast<std::size_t>(report.micro_batches) > kMostRuns) {
    throw InputError(
        {},
        fmt::format("{} blocks of {} micro-batches are too many to be placed",
                    report.plan.blocks.size(), report.micro_batches),
        fmt::format("at most {} together; the window is the same for fewer", kMostRuns));
  }
  double all = 0.0;
  for (const PlanBlock& block : report.plan.blocks) all += static_cast<double>(block.time);
  if (all * report.micro_batches > kMostTicks / 4) {
    throw InputError({}, "the times of the blocks differ too much to be counted in whole ticks",
                     "fewer decimals");
  }
  if (document.starts) {
    report.given = true;
    report.order.starts = *std::move(document.starts);
    report.order.makespan = makespan_of(report.plan, report.order.starts);
    report.order.peaks = peaks_of(report.plan, report.order.starts);
    report.order.makespan_bound = least_makespan(report.plan, report.micro_batches);
    const auto work = work_of_devices(report.plan);
    report.order.period_bound = *std::ranges::max_element(work);
    report.too_full = too_full(report.caps, report.order.peaks);
    return report;
  }
  auto found = find_window(report.plan, {report.micro_batches, report.caps});
  if (auto* none = std::get_if<NoWindow>(&found)) return std::move(*none);
  report.order = std::get<WindowOrder>(std::move(found));
  return report;
}

}  // namespace plansearch
