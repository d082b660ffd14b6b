// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "answer/advice.hpp"
#include "answer/compare_questions.hpp"
#include "answer/ladder.hpp"
#include "answer/published_plans.hpp"
#include "answer/write_page.hpp"
#include "answer/write_trace.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/space.hpp"
#include "question/degrees.hpp"

namespace plansearch::cli {
namespace {

void add_published(const Options& options, const ResolvedQuestion& inputs, SearchReport& report) {
  report.published = published_plans(shipped_data().recipes(), options, inputs, report);
  report.list_published = options.recipes;
}

/// Of plan 1, where there is one.
void write_first_trace(const Options& options, const ResolvedQuestion& inputs,
                       const SearchReport& report) {
  if (options.trace.empty() || report.plans.empty()) return;
  const PricedPlan first = priced_plan(inputs, report);
  write_trace(first.problem, first.plan, {options.trace, options.force});
}

int search_one(const Options& options, const ResolvedQuestion& inputs, const Output& output) {
  SearchRun run(options);
  SearchReport report = run.report(inputs, options, *inputs.gpus, "searching", NameMisses::Yes);
  const bool found = !report.plans.empty();
  const int code = code_of(found, run);
  if (!found && !run.stopped()) {
    report.remedies = find_remedies(options, inputs, *inputs.gpus, run.session());
  }
  for (std::string& advice : find_advice(options, inputs, report, run.session())) {
    report.advice.push_back(std::move(advice));
  }
  if (!run.stopped()) add_published(options, inputs, report);
  run.conclude_all(options);
  write_page(options.page, inputs, report);
  write_first_trace(options, inputs, report);
  if (options.pareto && is_staged(options.space)) {
    print_note(fmt::format("note: space {}: the front of the plans that were priced; bounds leave "
                           "out slower ones that need less memory",
                           options.space),
               options);
  }
  if (options.pareto && format_of(options) != Format::Json) show_front(report);
  output.write(render_search(report, format_of(options), columns_of(options)));
  return exit_code_after(run, options, code);
}

int search_ladder(const Options& options, const ResolvedQuestion& inputs, const Output& output) {
  SearchRun run(options);
  auto climbed = climb_ladder(inputs, options, run.session());
  if (const auto* infeasible = std::get_if<Infeasible>(&climbed)) refuse_question(*infeasible);
  auto& ladder = std::get<LadderReport>(climbed);
  LadderRung& chosen = ladder.rungs[ladder.chosen];
  const bool found = !chosen.report.plans.empty();
  const int code = code_of(found, run);
  if (!found && !run.stopped()) {
    chosen.report.remedies =
        find_remedies(options, inputs, chosen.report.question.gpus, run.session());
  }
  if (!run.stopped()) add_published(options, inputs, chosen.report);
  run.conclude_all(options);
  write_page(options.page, inputs, chosen.report, &ladder);
  write_first_trace(options, inputs, chosen.report);
  if (options.pareto && format_of(options) != Format::Json) show_front(chosen.report);
  output.write(render_ladder(ladder, format_of(options), columns_of(options)));
  return exit_code_after(run, options, code);
}

}  // namespace

int run_search(const Options& options) {
  if (asks_several(options)) {
    if (!options.page.empty() || !options.trace.empty()) {
      throw InputError({}, "--report and --trace are about one question, not about several",
                       "leave the lists out, or ask one question at a time");
    }
    return run_compare(options);
  }
  const Output output(options);
  check_degrees(options.degrees, options.limits);
  const ResolvedQuestion inputs = load_problem(options);
  for (const std::string& note : inputs.notes) print_note(note, options);
  check_degrees_fit(options, inputs.problem);
  return inputs.gpus ? search_one(options, inputs, output) : search_ladder(options, inputs, output);
}

}  // namespace plansearch::cli
