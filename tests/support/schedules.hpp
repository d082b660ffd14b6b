// SPDX-License-Identifier: Apache-2.0
// Rows of the table of schedules that many tests name; 1F1B is kDefaultSchedule.
#pragma once

#include "plansearch/schedule_id.hpp"

namespace plansearch::test {

inline const ScheduleId kGPipe = find_schedule("gpipe").value();
inline const ScheduleId kInterleaved = find_schedule("interleaved").value();

}  // namespace plansearch::test
