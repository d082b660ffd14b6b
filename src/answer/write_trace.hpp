// SPDX-License-Identifier: Apache-2.0
// Traces as files.
#pragma once

#include <string>

#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "report/schedule_report.hpp"

namespace plansearch {

struct TraceFile {
  std::string name;    ///< empty: none is written
  bool force = false;  ///< however many events it has
};

/// One step of a legal plan, or of a schedule by itself. Throws InputError for more than a million
/// events that are not forced.
void write_trace(const Problem& problem, const ParallelPlan& plan, const TraceFile& file);
void write_trace(const ScheduleReport& report, const TraceFile& file);

}  // namespace plansearch
