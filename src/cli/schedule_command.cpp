// SPDX-License-Identifier: Apache-2.0
#include "answer/write_trace.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {

int run_schedule(const Options& options) {
  const Output output(options);
  const Format format = format_of(options);
  if (options.schedule.lowered && format != Format::Csv) {
    throw InputError({}, "--lowered is for files of PyTorch's pipelining", "with --format csv");
  }
  const ScheduleReport report = answer(options.schedule);
  write_trace(report, {options.trace, options.force});
  if (format == Format::Table && !can_be_drawn(report)) {
    print_note("too large to be drawn", options);
  }
  output.write(format == Format::Csv ? order_csv(options.schedule, report)
                                     : to_text(report, format, columns_of(options)));
  if (report.too_full.empty()) return kExitOk;
  print_note(report.too_full, options);
  return kExitInfeasible;
}

}  // namespace plansearch::cli
