// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.hpp"
#include "cli/degrees.hpp"
#include "cli/exit_code.hpp"
#include "cli/given_plan.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "cli/write_plan.hpp"
#include "problem/make_report.hpp"
#include "problem/remedies.hpp"

namespace plansearch::cli {

int run_predict(const Options& options) {
  const Output output(options);
  const AskedOptions asked = complete_from_plan(options);
  const GivenPlan given = load_given_plan(asked);
  for (const std::string& note : given.inputs.notes) print_note(note, options);
  if (given.inexpressible) {
    print_error(*given.inexpressible, options);
    return kExitInexpressible;
  }
  write_plan_files(asked.options, given);
  const PlanEvaluator evaluator(given.problem);
  SearchReport report = make_prediction(given.inputs, evaluator, given.plan);
  const bool fits = report.misses.empty();
  if (!fits) {
    AskedOptions pinned = asked;
    if (given.degrees) {
      pinned.options.degrees = pinned_to(*given.degrees, asked.options.degrees);
    }
    SearchRun run(options);
    report.remedies =
        find_remedies(pinned.options, given.inputs, given.plan.devices(), run.session());
  }
  output.write(render_prediction(report, format_of(options)));
  return fits ? kExitOk : kExitInfeasible;
}

}  // namespace plansearch::cli
