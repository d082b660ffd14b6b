// SPDX-License-Identifier: Apache-2.0
#include "answer/compare_questions.hpp"

#include <algorithm>

#include "answer/capacity.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "question/degrees.hpp"

namespace plansearch::cli {

int run_compare(const Options& options) {
  if (options.pareto || (!options.all.empty() && !options.plans.empty())) {
    throw InputError({}, "--pareto and --all are about the plans of a search, not of a comparison",
                     "leave them out, or ask one question at a time");
  }
  const Output output(options);
  SearchRun run(options);
  check_degrees(options.degrees, options.limits);
  const ComparisonReport report =
      options.plans.empty() ? compare_questions(separate_questions(options), run.session())
                            : compare_given_plans(options, options.plans);
  for (const std::string& note : report.notes) print_note(note, options);
  run.conclude_all(options);
  output.write(render_comparison(report, format_of(options), columns_of(options)));
  const bool any = std::ranges::any_of(
      report.rows, [](const ComparedRow& row) { return row.plan.has_value() && row.fits; });
  return exit_code_after(run, options, code_of(any, run.stopped()));
}

int run_capacity(const Options& options) {
  const Output output(options);
  check_degrees(options.degrees, options.limits);
  SearchRun run(options);
  const CapacityReport report = plan_capacity(options, options.capacity, run.session());
  for (const std::string& note : report.notes) print_note(note, options);
  run.conclude_all(options);
  if (!options.page.empty()) io::write_file(options.page, capacity_page(report));
  output.write(render_capacity(report, format_of(options), columns_of(options)));
  const std::string missed = unmet(report);
  if (!missed.empty() && !run.stopped()) print_note(missed, options);
  return exit_code_after(run, options, code_of(missed.empty(), run.stopped()));
}

int run_fits(const Options& options) {
  const Output output(options);
  check_degrees(options.degrees, options.limits);
  SearchRun run(options);
  run.session().look_beyond(Beyond::None);
  const FitsReport report = does_it_fit(options, options.fits, run.session());
  output.write(render_fits(report, format_of(options), columns_of(options)));
  return exit_code_after(run, options, code_of(report.fits(), run.stopped()));
}

}  // namespace plansearch::cli
