// SPDX-License-Identifier: Apache-2.0
#include "answer/capacity.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "question/degrees.hpp"

namespace plansearch::cli {

int run_capacity(const Options& options) {
  const Output output(options);
  check_degrees(options.degrees, options.limits);
  SearchRun run(options);
  const CapacityReport report = plan_capacity(options, options.capacity, run.session());
  for (const std::string& note : report.notes) print_note(note, options);
  run.conclude_all(options);
  output.write(render_capacity(report, format_of(options), columns_of(options)));
  const std::string missed = unmet(report);
  if (!missed.empty()) print_note(missed, options);
  return exit_code_after(run, options, code_of(missed.empty(), run.stopped()));
}

}  // namespace plansearch::cli
