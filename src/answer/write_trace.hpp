// SPDX-License-Identifier: Apache-2.0
// Traces as files.
#pragma once

#include <string>

#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "report/schedule_report.hpp"

namespace plansearch {

/// One step of a legal plan, or of a schedule by itself; an empty name: not.
void write_trace(const Problem& problem, const ParallelPlan& plan, const std::string& file);
void write_trace(const ScheduleReport& report, const std::string& file);

}  // namespace plansearch
