// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "answer/make_report.hpp"
#include "answer/search_answer.hpp"
#include "answer/write_page.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "evaluate/answer/plan_details.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/stop_token.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"
#include "report/comparison.hpp"
#include "report/plan_timeline.hpp"
#include "report/text_table.hpp"

namespace plansearch::cli {
namespace {

constexpr const char* kBestOther = "the best other plan";

struct Explained {
  SearchReport report;
  ResolvedQuestion asked;
  Problem problem;
  std::shared_ptr<const ParallelPlan> plan;  ///< null: the search has found none
  std::optional<Rival> rival;
  std::optional<SensitivityReport> sensitivity{};
};

ResolvedPlan load_plan(const PlanRequest& asked, const Options& options) {
  ResolvedPlan plan = resolve_plan(asked);
  for (const std::string& note : plan.asked.notes) print_note(note, options);
  if (plan.inexpressible) throw InputError({}, *plan.inexpressible);
  return plan;
}

/// The ranked plans of a question; the second is the rival.
Explained searched(const Options& options, SearchSession& session) {
  check_degrees(options.degrees, options.limits);
  const ResolvedQuestion inputs = load_problem(options);
  if (!inputs.gpus) {
    throw InputError({}, "explain needs a plan or a number of GPUs",
                     "plansearch explain result.json#1, or plansearch explain --hw H --model M "
                     "--gpus N");
  }
  Explained result{report_or_refuse(inputs, *inputs.gpus, "searching", SideQuestions::All, session),
                   inputs,
                   with_gpus(inputs, *inputs.gpus),
                   {},
                   {}};
  const SearchReport& report = result.report;
  if (!report.plans.empty()) result.plan = report.plans.front().plan.plan;
  if (report.plans.size() > 1) result.rival = {kBestOther, report.question, report.plans[1]};
  return result;
}

/// A given plan, against another one or the best that a search finds.
Explained given(const Options& options, SearchSession& session) {
  const ResolvedPlan plan = load_plan(complete_from_plan(options, options.plan), options);
  const SwitchPriors priors = switch_priors(shipped_data());
  Explained result{predict_as_asked(plan, priors), plan.asked, plan.problem, {}, {}};
  result.plan = result.report.plans.front().plan.plan;
  if (!options.rival.empty()) {
    SearchReport other =
        predict_as_asked(load_plan(complete_from_plan(options, options.rival), options), priors);
    result.rival = {options.rival, other.question, std::move(other.plans.front())};
    return result;
  }
  ResolvedQuestion others = plan.asked;
  others.request.degrees = {};
  SearchReport found = report_or_refuse(others, plan.problem.gpus, "looking for rivals",
                                        SideQuestions::None, session);
  for (PlanReport& rival : found.plans) {
    if (*rival.plan.plan == plan.plan) continue;
    for (std::string& line : missed_by(plan.asked, found.question, result.report.plans.front(),
                                       rival.plan, rival.estimate.step.total())) {
      result.report.advice.push_back(std::move(line));
    }
    rival.rank = 2;
    rival.ties = {};
    result.report.plans.push_back(rival);
    result.rival = {"the best other plan, same settings", found.question, std::move(rival)};
    break;
  }
  return result;
}

/// The whole step, or a few micro-batches of the pipeline; nothing of an order that is found.
std::string picture_of(const Explained& explained, bool timeline, int columns) {
  const PlanEvaluator evaluator(explained.problem);
  const ParallelPlan& plan = *explained.plan;
  if (plan.order.window && !timeline) return {};
  if (timeline) return step_timeline(evaluator, plan, columns);
  const int drawn = drawn_micro_batches(plan.transform_at(0).degrees, *explained.problem.framework,
                                        *explained.problem.network);
  return pipeline_picture(*program_of(evaluator, plan, {.micro_batches = drawn}),
                          plan.order.micro_batches, columns);
}

std::string explanation(const Explained& explained, bool timeline, int columns) {
  SearchReport first = explained.report;
  first.plans.resize(1);
  const PlanReport& plan = first.plans.front();
  std::string text = render_prediction(first, Format::Table, columns);
  const std::string picture =
      unless_stopped([&] { return picture_of(explained, timeline, columns); });
  if (!picture.empty()) text += "\n" + (timeline ? picture : verbatim(picture, columns));
  text += fmt::format("\none micro-batch on stage {}, before anything hides\n{}",
                      plan.estimate.busiest_stage, operator_table(plan.operators, columns));
  if (!plan.redistributions.empty()) {
    text += fmt::format("\ntensors that change their layout, on one device\n{}",
                        redistribution_table(plan.redistributions, columns));
  }
  if (!plan.hidden.empty()) {
    text += fmt::format("\nits messages, on streams beside the kernels\n{}",
                        hidden_table(plan.hidden, columns));
  }
  if (explained.sensitivity) {
    text += fmt::format("\n{}", sensitivity_text(*explained.sensitivity, columns));
  }
  if (explained.rival) text += fmt::format("\n{}", compare_plans(plan, *explained.rival, columns));
  return wrapped(text, columns);
}

/// Adds findings beside the plan and its price, as far as there is time.
void add_findings(const Options& options, Explained& explained) {
  if (!explained.plan) return;
  if (options.sensitivity) {
    explained.sensitivity = unless_stopped([&] {
      return std::optional(
          sensitivity_of(explained.asked, explained.problem, *explained.plan, threads_of(options)));
    });
    if (!explained.sensitivity) {
      print_note("note: stopped before the sensitivities were found", options);
    }
  }
  if (explained.report.plans.empty()) return;
  explained.report.plans.front().redistributions = unless_stopped(
      [&] { return redistributions(PlanEvaluator(explained.problem), *explained.plan); });
}

void write_answer(const Options& options, const Explained& explained, const Output& output) {
  const SearchReport& report = explained.report;
  const Format format = format_of(options);
  if (format == Format::Json && (explained.rival || explained.sensitivity)) {
    output.write(explained_json(report, explained.rival, explained.sensitivity));
  } else if (format != Format::Table || report.plans.empty()) {
    output.write(render_search(report, format));
  } else {
    output.write(explanation(explained, options.timeline, columns_of(options)));
  }
  write_plots(options.plots, explained.asked, report);
  write_page(options.page, explained.asked, report, threads_of(options));
  if (explained.plan) write_trace_unless_stopped(explained.problem, *explained.plan, options);
}

}  // namespace

int run_explain(const Options& options) {
  const Output output(options);
  Options two = options;
  two.top = 2;
  SearchRun run(two);
  Explained explained =
      options.plan.empty() ? searched(two, run.session()) : given(two, run.session());
  {
    const LastMoment moment;
    add_findings(options, explained);
    write_answer(options, explained, output);
  }
  const SearchReport& report = explained.report;
  const bool fits = !report.plans.empty() && report.misses.empty();
  return exit_code_after(run, options, fits ? kExitOk : kExitInfeasible);
}

}  // namespace plansearch::cli
