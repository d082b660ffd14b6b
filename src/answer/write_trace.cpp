// SPDX-License-Identifier: Apache-2.0
#include "answer/write_trace.hpp"

#include "io/file.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "report/plan_timeline.hpp"

namespace plansearch {

void write_trace(const Problem& problem, const ParallelPlan& plan, const std::string& file) {
  if (file.empty()) return;
  io::write_file(file, plan_trace(*PlanEvaluator(problem).program(plan)));
}

void write_trace(const ScheduleReport& report, const std::string& file) {
  if (file.empty()) return;
  io::write_file(file, schedule_trace(simulated_schedule(report), report.times.ticks_per_unit));
}

}  // namespace plansearch
