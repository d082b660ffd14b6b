// SPDX-License-Identifier: Apache-2.0
// What `plansearch schedule` asks.
#pragma once

#include <optional>
#include <string>

#include "report/schedule_report.hpp"

namespace plansearch {

/// Durations as typed, of one device-stage.
struct ScheduleQuestion {
  std::string name;
  std::optional<int> stages, micro_batches, chunks, waves, group, memory_cap, forwards;
  std::string times;
  std::string p2p = "0";
  bool lowered = false;  ///< a file with sends and receives
};

/// InputError for an unknown schedule, a wrong duration, or a shape the schedule does not run in.
[[nodiscard]] ScheduleReport answer(const ScheduleQuestion& question);

/// The order as a file of PyTorch's pipelining.
[[nodiscard]] std::string order_csv(const ScheduleQuestion& question, const ScheduleReport& report);

}  // namespace plansearch
