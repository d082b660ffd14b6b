// SPDX-License-Identifier: Apache-2.0
// Which order a pipeline runs in: a row of the table of schedules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch {

/// A row of the table of schedules, or an order of a file (schedule/table.hpp). Only the row says
/// what the order is, never the number.
enum class ScheduleId : std::uint8_t {};

/// The default schedule is 1F1B, which every framework with a pipeline can run.
inline constexpr ScheduleId kDefaultSchedule{1};

[[nodiscard]] std::string_view to_text(ScheduleId schedule);
/// A row of the table, by name or alias, as users type it (case, '-' and '_' do not matter).
[[nodiscard]] std::optional<ScheduleId> find_schedule(std::string_view name);
/// The rows of the table, in its order; no orders of files.
[[nodiscard]] const std::vector<ScheduleId>& all_schedules();
/// Their names, for messages and hints.
[[nodiscard]] const std::vector<std::string>& schedule_names();

}  // namespace plansearch
