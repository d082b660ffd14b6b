// SPDX-License-Identifier: Apache-2.0
#include "answer/write_trace.hpp"

#include <fmt/format.h>

#include "evaluate/answer/plan_details.hpp"
#include "evaluate/step/priced_program.hpp"
#include "io/document/file.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "report/plan_cells.hpp"
#include "report/trace.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

constexpr std::int64_t kMostEvents = 1'000'000;

void check_events(std::int64_t events, const TraceFile& file) {
  if (events <= kMostEvents || file.force) return;
  throw InputError({file.name},
                   fmt::format("the trace has at least {} events, more than {}", grouped(events),
                               grouped(kMostEvents)),
                   "--force writes it; fewer micro-batches make it shorter");
}

void write(const Trace& trace, const TraceFile& file) {
  check_events(trace.events(), file);
  io::NewFile out(file.name);
  trace.write([&](std::string_view text) { out.append(text); });
  out.commit();
}

/// Makes as few micro-batches as show what repeats, where anything does. `program_of`: of so many;
/// `trace_of`: of a program.
template <typename ProgramOf, typename TraceOf>
void write_shape(const PipelineShape& shape, bool repeats, const TraceFile& file,
                 const ProgramOf& program_of, const TraceOf& trace_of) {
  const Schedule& row = schedule_row(shape.schedule);
  const int all = shape.micro_batches;
  const int step = repeats && row.repetition ? row.repetition(shape).period : 0;
  // No device keeps more than twice as many as there are stages.
  const int enough = 2 * shape.stages + step;
  for (int few = 4 * (enough + step); step > 0 && few <= all / 2; few *= 2) {
    few += (all - few) % step;
    const auto program = program_of(few);
    Trace trace = trace_of(*program);
    const int replicas = row.placement->replicas;
    const MoreMicroBatches more{(all - few) / replicas, step / replicas, enough / replicas,
                                shape.virtual_stages() / replicas};
    if (trace.extend(more)) return write(trace, file);
  }
  check_events(std::int64_t{2} * shape.virtual_stages() * all, file);
  write(trace_of(*program_of(all)), file);
}

}  // namespace

void write_trace(const Problem& problem, const ParallelPlan& plan, const TraceFile& file) {
  if (file.name.empty()) return;
  const PlanEvaluator evaluator(problem);
  const PlanDegrees& degrees = plan.transform_at(0).degrees;
  write_shape(
      pipeline_shape(degrees, *problem.framework, *problem.network), !is_listed(problem), file,
      [&](int micro_batches) { return program_of(evaluator, plan, {micro_batches}); },
      [](const PricedProgram& program) { return Trace(program); });
}

void write_trace(const ScheduleReport& report, const TraceFile& file) {
  if (file.name.empty()) return;
  write_shape(
      report.shape, true, file,
      [&](int micro_batches) {
        ScheduleReport shorter = report;
        shorter.shape.micro_batches = micro_batches;
        return std::make_unique<const SimulatedProgram>(simulated_schedule(shorter));
      },
      [&](const SimulatedProgram& program) { return Trace(program, report.times.ticks_per_unit); });
}

}  // namespace plansearch
