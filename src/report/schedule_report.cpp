// SPDX-License-Identifier: Apache-2.0
#include "report/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>
#include <vector>

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

class Text {
 public:
  Text(const ScheduleReport& report, int columns) : report_(report), columns_(columns) {}

  [[nodiscard]] double unit(Ticks ticks) const {
    return static_cast<double>(ticks) / report_.times.ticks_per_unit;
  }

  [[nodiscard]] std::string table() const {
    const ScheduleSummary& summary = report_.summary;
    const UniformTimes& times = report_.times.device;
    std::string text = fmt::format(
        "{}: {} stages, {} micro-batches{}; F {:g}, B {:g}, W {:g}{}, p2p {:g}\n"
        "makespan {:g}, span {:g}, bubble {:g} ({:.1f} %), bound {:g}\n",
        to_text(report_.shape.schedule), report_.shape.stages, report_.shape.micro_batches,
        report_.shape.chunks > 1
            ? fmt::format(", {} chunks ({})", report_.shape.chunks, mapping_of(report_.shape).name)
            : "",
        unit(times.forward), unit(times.backward), unit(times.weight),
        times.overlapped ? fmt::format(", FB {:g}", unit(*times.overlapped)) : "",
        unit(times.transfer), unit(summary.makespan), unit(summary.span), unit(summary.bubble_time),
        100.0 * summary.bubble_fraction, unit(report_.bound));
    if (report_.grid) {
      text += fmt::format("\n{}", in_blocks(to_text(*report_.grid), columns_));
    } else if (can_be_drawn(report_)) {
      text += schedule_timeline(simulated_schedule(report_), report_.shape,
                                report_.times.ticks_per_unit, columns_);
    }
    TextTable devices({{"device"}, {"first start"}, {"last end"}, {"busy"}, {"peak activations"}});
    for (std::size_t d = 0; d < report_.result.devices.size(); ++d) {
      const DeviceUse& use = report_.result.devices[d];
      devices.add_row({fmt::format("{}", d), fmt::format("{:g}", unit(use.first_start)),
                       fmt::format("{:g}", unit(use.last_end)), fmt::format("{:g}", unit(use.busy)),
                       fmt::format("{:g}", summary.peak_activations[d])});
    }
    return wrapped(text + "\n" + devices.text(columns_), columns_);
  }

  [[nodiscard]] Json json() const {
    const ScheduleSummary& summary = report_.summary;
    const UniformTimes& times = report_.times.device;
    Json answer{{"schema", "plansearch/schedule/v1"},
                {"schedule", std::string(to_text(report_.shape.schedule))},
                {"stages", report_.shape.stages},
                {"micro_batches", report_.shape.micro_batches},
                {"chunks", report_.shape.chunks},
                {"placement", std::string(mapping_of(report_.shape).name)},
                {"group", or_null(report_.shape.group)},
                {"memory_cap", or_null(report_.shape.memory_cap)},
                {"too_full", or_null(report_.too_full)},
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
                {"bound", unit(report_.bound)},
                {"peak_activations", summary.peak_activations}};
    Json devices = Json::array();
    for (const DeviceUse& use : report_.result.devices) {
      devices.push_back({{"first_start", unit(use.first_start)},
                         {"last_end", unit(use.last_end)},
                         {"busy", unit(use.busy)},
                         {"exposed_transfer", unit(use.exposed_transfer)}});
    }
    answer["devices"] = std::move(devices);
    answer["grid"] = report_.grid ? Json(to_text(*report_.grid)) : Json();
    return answer;
  }

 private:
  const ScheduleReport& report_;
  int columns_;
};

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
  const Text text(report, columns);
  if (format != Format::Json && format != Format::JsonLines) return text.table();
  return json_text(text.json(), format == Format::Json ? 2 : -1) + "\n";
}

}  // namespace plansearch
