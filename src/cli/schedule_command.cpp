// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "answer/write_trace.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {
namespace {

/// Flags of schedules by name.
void refuse_others(const Options& options) {
  const ScheduleQuestion& named = options.schedule;
  const auto refuse = [](const char* flag) {
    throw InputError({}, fmt::format("{} is of schedules by name, not of --blocks", flag),
                     "the file says where blocks lie and how long they take");
  };
  if (!named.name.empty()) refuse(named.name.c_str());
  if (named.stages) refuse("--stages");
  if (named.chunks) refuse("--chunks");
  if (named.waves) refuse("--waves");
  if (named.group) refuse("--group");
  if (named.forwards) refuse("--forwards");
  if (!named.times.empty()) refuse("--times");
  if (named.lowered) refuse("--lowered");
  if (!options.trace.empty()) refuse("--trace");
}

int run_ordering(const Options& options) {
  refuse_others(options);
  const Output output(options);
  const Format format = format_of(options);
  if (format == Format::Csv) {
    throw InputError({}, "orders of blocks have no CSV form", "table, json or jsonl");
  }
  OrderingQuestion question = options.ordering;
  question.micro_batches = options.schedule.micro_batches;
  const auto answered = answer(question);
  if (const auto* none = std::get_if<NoWindow>(&answered)) {
    print_note(fmt::format("{}; try {}", none->reason, none->remedy), options);
    return kExitInfeasible;
  }
  const auto& report = std::get<OrderingReport>(answered);
  output.write(to_text(report, format, columns_of(options)));
  if (report.too_full.empty()) return kExitOk;
  print_note(report.too_full, options);
  return kExitInfeasible;
}

}  // namespace

int run_schedule(const Options& options) {
  if (!options.ordering.blocks.empty()) return run_ordering(options);
  const Output output(options);
  const Format format = format_of(options);
  if (options.schedule.lowered && format != Format::Csv) {
    throw InputError({}, "--lowered is for files of PyTorch's pipelining", "with --format csv");
  }
  ScheduleQuestion question = options.schedule;
  question.memory_cap = one_cap(options.ordering.memory_cap);
  const ScheduleReport report = answer(question);
  write_trace(report, {options.trace, options.force});
  if (format == Format::Table && !can_be_drawn(report)) {
    print_note("too large to be drawn", options);
  }
  output.write(format == Format::Csv ? order_csv(question, report)
                                     : to_text(report, format, columns_of(options)));
  if (report.too_full.empty()) return kExitOk;
  print_note(report.too_full, options);
  return kExitInfeasible;
}

}  // namespace plansearch::cli
