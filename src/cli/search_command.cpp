// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.hpp"
#include "cli/degrees.hpp"
#include "cli/exit_code.hpp"
#include "cli/ladder.hpp"
#include "cli/output.hpp"
#include "cli/remedies.hpp"
#include "cli/search_run.hpp"

namespace plansearch::cli {
namespace {

/// A search that was cut short with nothing at hand has not shown that nothing fits.
int code_of(bool found, const SearchRun& run) {
  if (found) return kExitOk;
  return run.stopped() ? kExitInterrupted : kExitInfeasible;
}

int search_one(const AskedOptions& asked, const Inputs& inputs, const Output& output) {
  const Options& options = asked.options;
  SearchRun run(options);
  SearchReport report = run.report(inputs, options, *inputs.gpus, "searching", NameMisses::Yes);
  const bool found = !report.plans.empty();
  if (!found && !run.stopped()) {
    report.remedies = find_remedies(asked, inputs, *inputs.gpus, run);
  }
  output.write(render_search(report, format_of(options)));
  return exit_code_after(options, code_of(found, run));
}

int search_ladder(const AskedOptions& asked, const Inputs& inputs, const Output& output) {
  const Options& options = asked.options;
  SearchRun run(options);
  LadderReport ladder = climb_ladder(inputs, options, run);
  LadderRung& chosen = ladder.rungs[ladder.chosen];
  const bool found = !chosen.report.plans.empty();
  if (!found && !run.stopped()) {
    chosen.report.remedies = find_remedies(asked, inputs, chosen.report.question.gpus, run);
  }
  output.write(render_ladder(ladder, format_of(options)));
  return exit_code_after(options, code_of(found, run));
}

}  // namespace

int run_search(const Options& options) {
  const Output output(options);
  check_degrees(options.degrees);
  const AskedOptions asked{options, {}, {}};
  const Inputs inputs = load_inputs(asked);
  check_degrees_fit(options.degrees, inputs.problem);
  return inputs.gpus ? search_one(asked, inputs, output) : search_ladder(asked, inputs, output);
}

}  // namespace plansearch::cli
