// SPDX-License-Identifier: Apache-2.0
// The questions of `plansearch schedule`, of an order by name and of blocks (--blocks).
#pragma once

#include <optional>
#include <string>
#include <variant>

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

struct OrderingQuestion {
  std::string blocks;  ///< file (docs/orders.md)
  std::optional<int> micro_batches;
  std::string memory_cap;  ///< "6,5,4,3", or one number for all devices; empty: any amount
};

/// The one amount of schedules by name, above zero; absent where the flag is.
[[nodiscard]] std::optional<int> one_cap(const std::string& memory_cap);

/// The schedule of the file, checked, or one that was searched. InputError for what is wrong in the
/// file or the flags; NoWindow where no order keeps to the caps.
[[nodiscard]] std::variant<OrderingReport, NoWindow> answer(const OrderingQuestion& question);

}  // namespace plansearch
