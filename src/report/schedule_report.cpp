// SPDX-License-Identifier: Apache-2.0
#include "report/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <variant>

#include "base/names.hpp"
#include "plansearch/error.hpp"
#include "report/columns.hpp"
#include "report/plan_timeline.hpp"
#include "report/text_table.hpp"
#include "schedule/order/order_check.hpp"
#include "schedule/order/stage_places.hpp"
#include "schedule/simulation/closed_form.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Times in the unit in which they were asked.
auto unit_of(double ticks_per_unit) {
  return [=](Ticks ticks) { return static_cast<double>(ticks) / ticks_per_unit; };
}

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
    throw InputError({}, fmt::format("{}: '{}' is not a duration", flag, text),
                     "a number such as 3 or 0.25, up to 12 digits, in any unit of time");
  }
  std::from_chars(digits.data(), digits.data() + digits.size(), value.digits);
  return value;
}

/// More slots than this in a row, or more devices, make an unreadable picture.
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

/// The times of one virtual stage.
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
  if (!shape.memory_cap || *std::ranges::max_element(peaks) <= *shape.memory_cap) return {};
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

/// Characters between the beginnings of two cells: the fewest with a space in front of every cell.
std::size_t cell_stride(const std::vector<std::string_view>& rows, std::size_t name) {
  for (std::size_t stride = 2;; ++stride) {
    const bool begins = std::ranges::all_of(rows, [&](std::string_view row) {
      for (std::size_t at = name; at < row.size(); at += stride) {
        if (row[at] != ' ') return false;
      }
      return true;
    });
    if (begins) return stride;
  }
}

/// The rows "stage 0 | F0 F1 ..." of a drawing in pieces below each other, where it is too wide.
std::string in_blocks(const std::string& drawing, int columns) {
  std::vector<std::string_view> rows;
  std::size_t widest = 0;
  for (std::size_t at = 0; at < drawing.size();) {
    const std::size_t end = std::min(drawing.find('\n', at), drawing.size());
    rows.push_back(std::string_view(drawing).substr(at, end - at));
    widest = std::max(widest, rows.back().size());
    at = end + 1;
  }
  const auto most = static_cast<std::size_t>(columns);
  if (columns == kAnyWidth || widest <= most) return drawing;
  const std::size_t name = drawing.find('|') + 1;
  const std::size_t stride = cell_stride(rows, name);
  const std::size_t piece = std::max<std::size_t>((most - name) / stride, 1) * stride;
  std::string text;
  for (std::size_t at = name; at < widest; at += piece) {
    if (at > name) text += "\n";
    for (const std::string_view row : rows) {
      text += row.substr(0, name);
      text += at < row.size() ? row.substr(at, piece) : "";
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n";
    }
  }
  return text;
}

std::string table_of(const ScheduleReport& report, int columns) {
  const auto unit = unit_of(report.times.ticks_per_unit);
  const ScheduleSummary& summary = report.summary;
  const UniformTimes& times = report.times.device;
  std::string text = fmt::format(
      "{}: {} stages, {} micro-batches{}; F {:g}, B {:g}, W {:g}{}, p2p {:g}\n"
      "makespan {:g}, span {:g}, bubble {:g} ({:.1f} %), bound {:g}\n",
      to_text(report.shape.schedule), report.shape.stages, report.shape.micro_batches,
      report.shape.chunks > 1
          ? fmt::format(", {} chunks ({})", report.shape.chunks, mapping_of(report.shape).name)
          : "",
      unit(times.forward), unit(times.backward), unit(times.weight),
      times.overlapped ? fmt::format(", FB {:g}", unit(*times.overlapped)) : "",
      unit(times.transfer), unit(summary.makespan), unit(summary.span), unit(summary.bubble_time),
      100.0 * summary.bubble_fraction, unit(report.bound));
  if (report.grid) {
    text += fmt::format("\n{}", in_blocks(to_text(*report.grid), columns));
  } else if (can_be_drawn(report)) {
    text += schedule_timeline(simulated_schedule(report), report.shape, report.times.ticks_per_unit,
                              columns);
  }
  TextTable devices({{"device"}, {"first start"}, {"last end"}, {"busy"}, {"peak activations"}});
  for (std::size_t d = 0; d < report.result.devices.size(); ++d) {
    const DeviceUse& use = report.result.devices[d];
    devices.add_row({fmt::format("{}", d), fmt::format("{:g}", unit(use.first_start)),
                     fmt::format("{:g}", unit(use.last_end)), fmt::format("{:g}", unit(use.busy)),
                     fmt::format("{:g}", summary.peak_activations[d])});
  }
  return wrapped(text + "\n" + devices.text(columns), columns);
}

Json json_of(const ScheduleReport& report) {
  const auto unit = unit_of(report.times.ticks_per_unit);
  const ScheduleSummary& summary = report.summary;
  const UniformTimes& times = report.times.device;
  Json devices = array_of(report.result.devices, [&](const DeviceUse& use) -> Json {
    return {{"first_start", unit(use.first_start)},
            {"last_end", unit(use.last_end)},
            {"busy", unit(use.busy)},
            {"exposed_transfer", unit(use.exposed_transfer)}};
  });
  return {{"schema", "plansearch/schedule/v1"},
          {"schedule", std::string(to_text(report.shape.schedule))},
          {"stages", report.shape.stages},
          {"micro_batches", report.shape.micro_batches},
          {"chunks", report.shape.chunks},
          {"placement", std::string(mapping_of(report.shape).name)},
          {"group", or_null(report.shape.group)},
          {"memory_cap", or_null(report.shape.memory_cap)},
          {"too_full", or_null(report.too_full)},
          {"times",
           {{"forward", unit(times.forward)},
            {"backward", unit(times.backward)},
            {"weight_gradient", unit(times.weight)},
            {"overlapped",
             unit(times.overlapped.value_or(times.forward + times.backward + times.weight))},
            {"transfer", unit(times.transfer)}}},
          {"makespan", unit(summary.makespan)},
          {"span", unit(summary.span)},
          {"bubble_time", unit(summary.bubble_time)},
          {"bubble_fraction", summary.bubble_fraction},
          {"bound", unit(report.bound)},
          {"peak_activations", summary.peak_activations},
          {"devices", std::move(devices)},
          {"grid", report.grid ? Json(to_text(*report.grid)) : Json()}};
}

/// How far the window is from what none can beat.
std::string gap_text(const WindowOrder& order, double bound) {
  if (order.period == order.period_bound) return "none is shorter";
  const double over = static_cast<double>(order.period - order.period_bound) /
                      static_cast<double>(order.period_bound);
  return fmt::format("{:.1f} % above the bound of {:g}", 100.0 * over, bound);
}

/// A letter for every block, in the order of the file, and the micro-batch; nothing where it is too
/// large to read.
std::string picture_of(const OrderingReport& report, int columns) {
  const WindowOrder& order = report.order;
  const auto& blocks = report.plan.blocks;
  const auto letter = [](NodeId id) { return static_cast<char>('a' + id); };
  Ticks slot = order.makespan;
  for (NodeId id = 0; id < blocks.size(); ++id) {
    slot = std::gcd(slot, blocks[id].time);
    for (const Ticks start : order.starts[id]) slot = std::gcd(slot, start);
  }
  constexpr std::size_t kLetters = 26;
  const auto slots = static_cast<std::size_t>(order.makespan / slot);
  if (blocks.size() > kLetters || report.plan.devices() > kMostRows || slots > kMostSlots)
    return {};
  const std::size_t width = 1 + std::to_string(report.micro_batches - 1).size();
  const std::size_t digits = std::to_string(report.plan.devices() - 1).size();
  const auto runs = runs_by_device(report.plan, order.starts);
  std::string rows;
  for (std::size_t d = 0; d < runs.size(); ++d) {
    std::vector<std::string> cells(slots, ".");
    for (const BlockTurn& run : runs[d]) {
      const Ticks end = run.start + blocks[run.node].time;
      for (Ticks at = run.start / slot; at < end / slot; ++at) {
        cells[static_cast<std::size_t>(at)] = letter(run.node) + std::to_string(run.micro_batch);
      }
    }
    rows += fmt::format("device {:<{}} |", d, digits);
    for (const std::string& cell : cells) rows += fmt::format(" {:<{}}", cell, width);
    rows.erase(rows.find_last_not_of(' ') + 1);
    rows += "\n";
  }
  std::string text = in_blocks(rows, columns) + "\n";
  for (NodeId id = 0; id < blocks.size(); ++id) {
    text += fmt::format("{}{} {}", id == 0 ? "" : ", ", letter(id), blocks[id].name);
  }
  return text + "\n\n";
}

std::string table_of(const OrderingReport& report, int columns) {
  const auto unit = unit_of(report.ticks_per_unit);
  const WindowOrder& order = report.order;
  std::string text =
      fmt::format("{}: {} blocks on {} devices, {} micro-batches\n", report.plan.name,
                  report.plan.blocks.size(), report.plan.devices(), report.micro_batches);
  if (report.given) {
    text += "the schedule of the file keeps all rules\n";
  } else {
    text += fmt::format("window {:g} per micro-batch, {}\n", unit(order.period),
                        gap_text(order, unit(order.period_bound)));
  }
  text += fmt::format(
      "makespan {:g}, bound {:g} (work of a device between its first input and "
      "what follows its last block)\n",
      unit(order.makespan), unit(order.makespan_bound));
  if (order.stopped)
    text += "stopped before the search was through: a longer one may find better\n";
  const std::vector<Ticks> work = work_of_devices(report.plan);
  TextTable table({{"device"}, {"busy"}, {"idle"}, {"peak"}, {"may keep"}});
  for (std::size_t d = 0; d < work.size(); ++d) {
    const Ticks busy = work[d] * report.micro_batches;
    const auto& cap = report.caps[d];
    table.add_row({fmt::format("{}", d), fmt::format("{:g}", unit(busy)),
                   fmt::format("{:g}", unit(order.makespan - busy)),
                   fmt::format("{}", order.peaks[d]),
                   cap ? fmt::format("{}", *cap) : std::string("-")});
  }
  return wrapped(text + "\n" + picture_of(report, columns) + table.text(columns), columns);
}

Json json_of(const OrderingReport& report) {
  const auto unit = unit_of(report.ticks_per_unit);
  const WindowOrder& order = report.order;
  const std::vector<Ticks> work = work_of_devices(report.plan);
  Json devices = Json::array();
  for (std::size_t d = 0; d < work.size(); ++d) {
    devices.push_back({{"busy", unit(work[d] * report.micro_batches)},
                       {"peak", order.peaks[d]},
                       {"cap", or_null(report.caps[d])}});
  }
  Json starts = Json::object();
  for (NodeId id = 0; id < report.plan.blocks.size(); ++id) {
    starts[report.plan.blocks[id].name] = array_of(order.starts[id], unit);
  }
  return {{"schema", "plansearch/ordering/v1"},
          {"name", report.plan.name},
          {"micro_batches", report.micro_batches},
          {"given", report.given},
          {"period", report.given ? Json() : Json(unit(order.period))},
          {"period_bound", unit(order.period_bound)},
          {"makespan", unit(order.makespan)},
          {"makespan_bound", unit(order.makespan_bound)},
          {"stopped", order.stopped},
          {"choices", order.choices},
          {"too_full", or_null(report.too_full)},
          {"devices", std::move(devices)},
          {"starts", std::move(starts)}};
}

template <typename Report>
std::string shown(const Report& report, Format format, int columns) {
  if (format != Format::Json && format != Format::JsonLines) return table_of(report, columns);
  return json_text(json_of(report), format == Format::Json ? 2 : -1) + "\n";
}

}  // namespace

ScheduleTimes read_times(const std::string& times, const std::string& transfer, int chunks) {
  const std::vector<std::string> parts = split(times, ",");
  if (parts.size() < 2 || parts.size() > 4) {
    throw InputError({}, fmt::format("--times {}: {} values", times, parts.size()),
                     "F,B, F,B,W or F,B,W,FB: forward, input gradient and weight gradient of one "
                     "stage, forward and whole backward that overlap");
  }
  std::vector<Decimal> values;
  for (const std::string& part : parts) values.push_back(parse_decimal("--times", part));
  const bool overlap_given = values.size() == 4;
  values.resize(4);
  values.push_back(parse_decimal("--p2p", transfer));
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
  ScheduleTimes read{{ticks(values[0]), ticks(values[1]), ticks(values[4]), ticks(values[2])},
                     static_cast<double>(chunks)};
  if (overlap_given) {
    const Ticks overlapped = ticks(values[3]);
    read.device.overlapped = overlapped;
    if (overlapped < std::max(read.device.forward, read.device.backward + read.device.weight)) {
      throw InputError({}, fmt::format("--times {}: FB is shorter than F or B + W", times),
                       "forward and backward at the same time take as long as the longer of them, "
                       "or longer");
    }
  }
  for (int i = 0; i < decimals; ++i) read.ticks_per_unit *= 10.0;
  return read;
}

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

std::string to_text(const ScheduleReport& report, Format format, int columns) {
  return shown(report, format, columns);
}

std::string to_text(const OrderingReport& report, Format format, int columns) {
  return shown(report, format, columns);
}

}  // namespace plansearch
