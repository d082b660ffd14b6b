// SPDX-License-Identifier: Apache-2.0
#include "answer/write_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "answer/make_report.hpp"
#include "evaluate/answer/plan_details.hpp"
#include "evaluate/step/priced_program.hpp"
#include "io/document/file.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/stop_token.hpp"
#include "report/page/page.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_timeline.hpp"
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

/// The data of the pictures of an answer; the content points into it.
struct Drawn {
  std::optional<PricedPlan> first;
  std::shared_ptr<const PricedProgram> program;
  page::PageContent content;
};

std::unique_ptr<const Drawn> drawn(const ResolvedQuestion& asked, const SearchReport& report,
                                   const LadderReport* ladder) {
  auto drawn = std::make_unique<Drawn>();
  page::PageContent& content = drawn->content;
  content.report = &report;
  content.ladder = ladder;
  if (report.plans.empty()) return drawn;
  const PricedPlan& first = drawn->first.emplace(priced_plan(asked, report));
  const PlanDegrees& degrees = first.plan.transform_at(0).degrees;
  const int shown = drawn_micro_batches(degrees, *first.problem.framework, *first.problem.network);
  if (!first.plan.order.window) {
    drawn->program = unless_stopped([&] {
      return program_of(PlanEvaluator(first.problem), first.plan,
                        {std::min(shown, degrees.micro_batches)});
    });
    content.program = drawn->program.get();
  }
  content.micro_batches = degrees.micro_batches;
  content.problem = &first.problem;
  return drawn;
}

const page::PlotRow* plot_named(std::string_view name) {
  const auto rows = page::plots();
  const auto found = std::ranges::find_if(rows, [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

PricedPlan priced_plan(const ResolvedQuestion& asked, const SearchReport& report) {
  Problem problem = with_gpus(asked, report.question.gpus);
  const PlanSummary& summary = report.plans.front().plan;
  if (summary.network) problem.network = summary.network;
  if (summary.plan) return {problem, *summary.plan};
  auto plan = expand(summary.degrees, *problem.network, *problem.framework);
  return {problem, std::get<ParallelPlan>(std::move(plan))};
}

std::string plot_problem(const std::string& plot) {
  const std::size_t equals = plot.find('=');
  if (equals != std::string::npos && equals + 1 < plot.size() &&
      plot_named(plot.substr(0, equals)) != nullptr) {
    return {};
  }
  std::vector<std::string_view> names;
  for (const page::PlotRow& row : page::plots()) names.push_back(row.name);
  return fmt::format("'{}' is not NAME=FILE, such as step=step.svg, with a name of {}", plot,
                     fmt::join(names, ", "));
}

void write_page(const std::string& file, const ResolvedQuestion& asked, const SearchReport& report,
                int threads, const LadderReport* ladder) {
  if (file.empty()) return;
  const auto made = drawn(asked, report, ladder);
  page::PageContent content = made->content;
  std::optional<SensitivityReport> sensitivity;
  if (made->first) {
    sensitivity = unless_stopped([&] {
      return std::optional(sensitivity_of(asked, made->first->problem, made->first->plan, threads));
    });
    if (sensitivity) content.sensitivity = &*sensitivity;
  }
  io::write_file(file, page::search_page(content));
}

void write_plots(const std::vector<std::string>& plots, const ResolvedQuestion& asked,
                 const SearchReport& report, const LadderReport* ladder) {
  if (plots.empty()) return;
  const auto content = drawn(asked, report, ladder);
  for (const std::string& plot : plots) {
    const std::size_t equals = plot.find('=');
    const page::PlotRow& row = *plot_named(plot.substr(0, equals));
    const page::Figure figure = row.draw(content->content);
    if (figure.content.empty() && stop_reason() != StopReason::None) continue;
    if (figure.content.empty()) {
      throw InputError({}, fmt::format("--plot {}: this answer has nothing to draw", plot),
                       fmt::format("it takes {}", row.needs));
    }
    io::write_file(plot.substr(equals + 1), page::svg_file({&figure, 1}));
  }
}

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
