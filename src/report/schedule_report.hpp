// SPDX-License-Identifier: Apache-2.0
// One pipeline schedule by itself, as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/report.hpp"
#include "schedule/program/timeline.hpp"
#include "schedule/simulation/simulated_program.hpp"
#include "schedule/simulation/simulator.hpp"
#include "schedule/window/window_search.hpp"

namespace plansearch {

/// Times of a whole device-stage in ticks, and how many ticks make the unit in which they were
/// asked.
struct ScheduleTimes {
  UniformTimes device;
  double ticks_per_unit = 1.0;
};

/// "F,B", "F,B,W" or "F,B,W,FB" of one stage, and of a transfer, as whole ticks of a stage and of
/// its chunks. InputError for a wrong duration, and for an FB shorter than F or B + W.
[[nodiscard]] ScheduleTimes read_times(const std::string& times, const std::string& transfer,
                                       int chunks);

/// Times in the answer are ticks / ticks_per_unit: the unit in which they were asked.
struct ScheduleReport {
  PipelineShape shape;
  ScheduleTimes times;
  PipelineResult result;
  ScheduleSummary summary;
  Ticks bound = 0;           ///< that no order of this schedule can beat
  std::string too_full;      ///< where a memory cap is exceeded, in words
  std::optional<Grid> grid;  ///< absent where it would be too large to read
};

/// Simulated and bounded; drawn where it is small enough to be read. The chunks of the shape divide
/// the times of a device, and the shape is legal.
[[nodiscard]] ScheduleReport report_schedule(const PipelineShape& shape,
                                             const ScheduleTimes& times);

/// Whether an order is short enough to be simulated once more for a picture.
[[nodiscard]] bool can_be_drawn(const ScheduleReport& report);

/// Every instruction of it.
[[nodiscard]] SimulatedProgram simulated_schedule(const ScheduleReport& report);

/// table, json or jsonl. A drawing of more than `columns` characters to a row goes on below; 0: any
/// number.
[[nodiscard]] std::string to_text(const ScheduleReport& report, Format format, int columns = 0);

/// Times are ticks / ticks_per_unit: the unit of the file.
struct OrderingReport {
  BlockPlan plan;
  double ticks_per_unit = 1.0;
  std::vector<std::optional<int>> caps;  ///< by device
  int micro_batches = 1;
  bool given = false;  ///< the starts of the file, checked; there is no window
  WindowOrder order;
  std::string too_full;  ///< where a given schedule keeps more than it may, in words
};

/// table, json or jsonl. A drawing of more than `columns` characters to a row goes on below; 0: any
/// number.
[[nodiscard]] std::string to_text(const OrderingReport& report, Format format, int columns = 0);

}  // namespace plansearch
