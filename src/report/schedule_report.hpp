// SPDX-License-Identifier: Apache-2.0
// One pipeline schedule by itself, as text.
#pragma once

#include <optional>
#include <string>

#include "plansearch/report.hpp"
#include "schedule/summary.hpp"

namespace plansearch {

/// Times in the answer are ticks / ticks_per_unit: the unit in which they were asked.
struct ScheduleReport {
  PipelineShape shape;
  UniformTimes device_times;  ///< of a whole device-stage, in ticks
  double ticks_per_unit = 1.0;
  PipelineResult result;
  ScheduleSummary summary;
  Ticks bound = 0;           ///< that no order of this schedule can beat
  std::optional<Grid> grid;  ///< absent where it would be too large to read
};

/// table, json, jsonl or csv (one row per device).
[[nodiscard]] std::string to_text(const ScheduleReport& report, Format format);

}  // namespace plansearch
