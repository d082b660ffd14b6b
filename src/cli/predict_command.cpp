// SPDX-License-Identifier: Apache-2.0
#include "answer/advice.hpp"
#include "answer/unstated.hpp"
#include "answer/write_page.hpp"
#include "answer/write_trace.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"
#include "report/plan_timeline.hpp"

namespace plansearch::cli {

int run_predict(const Options& options) {
  const Output output(options);
  const PlanRequest asked =
      with_constraints(complete_from_plan(options, options.plan), options.constraints);
  const ResolvedPlan given = resolve_plan(asked);
  for (const std::string& note : given.asked.notes) print_note(note, options);
  if (given.inexpressible) {
    print_error(*given.inexpressible, options);
    return kExitInexpressible;
  }
  write_plan_files(given, {options.write_plan, options.write_stages, options.write_primitives});
  write_trace(given.problem, given.plan, {options.trace, options.force});
  const PlanEvaluator evaluator(given.problem);
  SearchReport report = predict_as_asked(given, evaluator, switch_priors(shipped_data()));
  int code = kExitOk;
  if (!report.misses.empty()) {
    ResolvedQuestion pinned = given.asked;
    pinned.request = asked.request;
    if (given.degrees) {
      pinned.request.degrees = pinned_to(*given.degrees, asked.request.degrees);
    }
    SearchRun run(options);
    report.remedies = find_remedies(pinned, given.plan.devices(), run.session());
    code = exit_code_after(run, options, kExitInfeasible);
  }
  write_plots(options.plots, given.asked, report);
  std::string text = render_prediction(report, format_of(options), columns_of(options));
  if (options.timeline && format_of(options) == Format::Table) {
    text += "\n" + step_timeline(evaluator, given.plan, columns_of(options));
  }
  output.write(text);
  return code;
}

}  // namespace plansearch::cli
