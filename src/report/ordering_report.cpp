// SPDX-License-Identifier: Apache-2.0
#include "report/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/columns.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Wider pictures, or pictures of more devices, are unreadable.
constexpr Ticks kMostOrderSlots = 200;
constexpr std::size_t kMostOrderRows = 64;

class OrderingText {
 public:
  OrderingText(const OrderingReport& report, int columns)
      : report_(report), columns_(columns), work_(work_of_devices(report.plan)) {}

  [[nodiscard]] double unit(Ticks ticks) const {
    return static_cast<double>(ticks) / report_.ticks_per_unit;
  }

  [[nodiscard]] std::string table() const {
    const WindowOrder& order = report_.order;
    std::string text =
        fmt::format("{}: {} blocks on {} devices, {} micro-batches\n", report_.plan.name,
                    report_.plan.blocks.size(), report_.plan.devices(), report_.micro_batches);
    if (report_.given) {
      text += "the schedule of the file keeps all rules\n";
    } else {
      text += fmt::format("window {:g} per micro-batch, {}\n", unit(order.period), gap());
    }
    text += fmt::format(
        "makespan {:g}, bound {:g} (work of a device between its first input and "
        "what follows its last block)\n",
        unit(order.makespan), unit(order.makespan_bound));
    if (order.stopped)
      text += "stopped before the search was through: a longer one may find better\n";
    text += "\n" + picture() + devices();
    return wrapped(text, columns_);
  }

  [[nodiscard]] Json json() const {
    const WindowOrder& order = report_.order;
    Json answer{{"schema", "plansearch/ordering/v1"},
                {"name", report_.plan.name},
                {"micro_batches", report_.micro_batches},
                {"given", report_.given},
                {"period", report_.given ? Json() : Json(unit(order.period))},
                {"period_bound", unit(order.period_bound)},
                {"makespan", unit(order.makespan)},
                {"makespan_bound", unit(order.makespan_bound)},
                {"stopped", order.stopped},
                {"choices", order.choices},
                {"too_full", or_null(report_.too_full)}};
    Json devices = Json::array();
    for (std::size_t d = 0; d < work_.size(); ++d) {
      devices.push_back({{"busy", unit(work_[d] * report_.micro_batches)},
                         {"peak", order.peaks[d]},
                         {"cap", or_null(report_.caps[d])}});
    }
    answer["devices"] = std::move(devices);
    Json starts = Json::object();
    for (NodeId id = 0; id < report_.plan.blocks.size(); ++id) {
      Json& of_block = starts[report_.plan.blocks[id].name];
      of_block = Json::array();
      for (const Ticks start : order.starts[id]) of_block.push_back(unit(start));
    }
    answer["starts"] = std::move(starts);
    return answer;
  }

 private:
  [[nodiscard]] std::string gap() const {
    const WindowOrder& order = report_.order;
    if (order.period == order.period_bound) return "none is shorter";
    const double over = static_cast<double>(order.period - order.period_bound) /
                        static_cast<double>(order.period_bound);
    return fmt::format("{:.1f} % above the bound of {:g}", 100.0 * over, unit(order.period_bound));
  }

  /// A letter for every block, in the order of the file, and the micro-batch.
  [[nodiscard]] std::string cell(const BlockTurn& run) const {
    const auto letter = static_cast<char>('a' + run.node);
    return letter + std::to_string(run.micro_batch);
  }

  [[nodiscard]] std::string picture() const {
    const WindowOrder& order = report_.order;
    const std::size_t blocks = report_.plan.blocks.size();
    Ticks slot = order.makespan;
    for (NodeId id = 0; id < blocks; ++id) {
      slot = std::gcd(slot, report_.plan.blocks[id].time);
      for (const Ticks start : order.starts[id]) slot = std::gcd(slot, start);
    }
    constexpr std::size_t kLetters = 26;
    if (blocks > kLetters || work_.size() > kMostOrderRows ||
        order.makespan / slot > kMostOrderSlots) {
      return {};
    }
    const std::size_t width = 1 + std::to_string(report_.micro_batches - 1).size();
    const auto slots = static_cast<std::size_t>(order.makespan / slot);
    const std::string name =
        fmt::format("device {:{}} |", "", std::to_string(work_.size() - 1).size());
    std::size_t per_row = slots;
    if (columns_ != kAnyWidth && static_cast<std::size_t>(columns_) > name.size() + width + 1) {
      per_row = (static_cast<std::size_t>(columns_) - name.size()) / (width + 1);
    }
    const auto runs = runs_by_device(report_.plan, order.starts);
    std::string text;
    for (std::size_t first = 0; first < slots; first += per_row) {
      for (std::size_t d = 0; d < runs.size(); ++d) {
        std::vector<std::string> cells(slots, ".");
        for (const BlockTurn& run : runs[d]) {
          const Ticks end = run.start + report_.plan.blocks[run.node].time;
          for (Ticks at = run.start / slot; at < end / slot; ++at) {
            cells[static_cast<std::size_t>(at)] = cell(run);
          }
        }
        std::string line =
            fmt::format("device {:<{}} |", d, std::to_string(runs.size() - 1).size());
        for (std::size_t i = first; i < std::min(first + per_row, slots); ++i) {
          line += fmt::format(" {:<{}}", cells[i], width);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
      }
      text += "\n";
    }
    for (NodeId id = 0; id < blocks; ++id) {
      text += fmt::format("{}{} {}", id == 0 ? "" : ", ", static_cast<char>('a' + id),
                          report_.plan.blocks[id].name);
    }
    return text + "\n\n";
  }

  [[nodiscard]] std::string devices() const {
    TextTable table({{"device"}, {"busy"}, {"idle"}, {"peak"}, {"may keep"}});
    for (std::size_t d = 0; d < work_.size(); ++d) {
      const Ticks busy = work_[d] * report_.micro_batches;
      const auto& cap = report_.caps[d];
      table.add_row({fmt::format("{}", d), fmt::format("{:g}", unit(busy)),
                     fmt::format("{:g}", unit(report_.order.makespan - busy)),
                     fmt::format("{}", report_.order.peaks[d]),
                     cap ? fmt::format("{}", *cap) : std::string("-")});
    }
    return table.text(columns_);
  }

  const OrderingReport& report_;
  int columns_;
  std::vector<Ticks> work_;
};

}  // namespace

std::string to_text(const OrderingReport& report, Format format, int columns) {
  const OrderingText text(report, columns);
  if (format != Format::Json && format != Format::JsonLines) return text.table();
  return json_text(text.json(), format == Format::Json ? 2 : -1) + "\n";
}

}  // namespace plansearch
