// SPDX-License-Identifier: Apache-2.0
#include "report/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "report/columns.hpp"
#include "report/json_text.hpp"
#include "report/plan_timeline.hpp"
#include "report/text_table.hpp"
#include "schedule/order/stage_places.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Characters between the beginnings of two cells: the fewest with a space in front of every cell.
std::size_t cell_stride(const std::vector<std::string_view>& rows, std::size_t name) {
  for (std::size_t stride = 2;; ++stride) {
    const bool begins = std::all_of(rows.begin(), rows.end(), [&](std::string_view row) {
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

std::string to_text(const ScheduleReport& report, Format format, int columns) {
  const Text text(report, columns);
  switch (format) {
    case Format::Json:
      return json_text(text.json(), 2) + "\n";
    case Format::JsonLines:
      return json_text(text.json()) + "\n";
    default:
      return text.table();
  }
}

}  // namespace plansearch
