// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "answer/compare_questions.hpp"
#include "answer/search_answer.hpp"
#include "answer/write_page.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "plansearch/error.hpp"
#include "plansearch/space.hpp"
#include "plansearch/stop_token.hpp"
#include "question/degrees.hpp"

namespace plansearch::cli {
namespace {

/// Writes the page, the pictures and the trace that the options name.
void write_files(const Options& options, SearchAnswer& answer) {
  const LastMoment moment;
  const SearchReport& report = answer.report();
  const LadderReport* ladder = answer.ladder_or_null();
  write_page(options.page, answer.asked, report, threads_of(options), ladder);
  write_plots(options.plots, answer.asked, report, ladder);
  if (options.trace.empty() || report.plans.empty()) return;
  const PricedPlan first = priced_plan(answer.asked, report);
  write_trace_unless_stopped(first.problem, first.plan, options);
}

/// The text of the answer: the plans, or their Pareto front.
std::string rendered(const Options& options, SearchAnswer& answer) {
  SearchReport& report = answer.report();
  report.list_published = options.recipes;
  const Format format = format_of(options);
  if (options.pareto && format != Format::Json) show_front(report);
  return answer.ladder ? render_ladder(*answer.ladder, format, columns_of(options))
                       : render_search(report, format, columns_of(options));
}

}  // namespace

int run_search(const Options& options) {
  if (asks_several(options)) {
    if (!options.page.empty() || !options.trace.empty() || !options.plots.empty()) {
      throw InputError({}, "--report, --plot and --trace are about one question, not about several",
                       "leave the lists out, or ask one question at a time");
    }
    return run_compare(options);
  }
  const Output output(options);
  check_degrees(options.degrees, options.limits);
  const PlanRequest given = complete_from_plan(options, options.plan);
  const PlanRequest asked = with_constraints(given, options.constraints);
  const std::vector<OpenQuestion> variants = open_questions(asked);
  for (const std::string& note : variants.front().asked.notes) print_note(note, options);
  SearchRun run(options);
  SearchAnswer answer = answer_search(variants, run.session(), PLANSEARCH_VERSION);
  run.conclude_all(options);
  write_files(options, answer);
  if (options.pareto && !answer.ladder && is_staged(options.space)) {
    print_note(fmt::format("note: space {}: the front of the plans that were priced; bounds leave "
                           "out slower ones that need less memory",
                           options.space),
               options);
  }
  output.write(rendered(options, answer));
  const bool found = !answer.report().plans.empty();
  return exit_code_after(run, options, code_of(found, answer.cut_short));
}

}  // namespace plansearch::cli
