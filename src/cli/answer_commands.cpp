// SPDX-License-Identifier: Apache-2.0
// Commands that compute one answer and write it.
#include <fmt/format.h>

#include <functional>

#include "answer/show.hpp"
#include "answer/write_page.hpp"
#include "base/overrides.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::cli {

namespace {

int write(const Options& options, const std::function<std::string()>& answer) {
  const Output output(options);
  output.write(answer());
  return kExitOk;
}

ShippedData data_of(const Options& options) {
  return shipped_data()
      .changed(options.set.value_or(""))
      .with_operators(options.operators.value_or(""));
}

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

int run_list(const Options& o) {
  return write(o, [&] { return list_shipped(o.argument, format_of(o), columns_of(o)); });
}

namespace {

/// A value of another file than the one shown would change nothing.
void refuse_other_values(const Options& o) {
  for (const Override& one : parse_overrides(o.set.value_or(""))) {
    const std::string_view file = kShown[static_cast<std::size_t>(one.file)];
    if (o.argument == file) continue;
    throw InputError({},
                     fmt::format("{}: show {} reads no value of a {}", one.typed, o.argument,
                                 one.file == OverriddenFile::Hardware ? "machine" : file),
                     fmt::format("plansearch show {} NAME shows what it changes", file));
  }
}

}  // namespace

int run_show(const Options& o) {
  refuse_other_values(o);
  if (o.graph) {
    if (o.argument != "model") throw InputError({}, "--graph is for show model");
    return write(o, [&] { return graph_file(o.shown, data_of(o)); });
  }
  if (o.operators && o.argument != "model") {
    throw InputError({}, "--operators is for show model", "leave it out");
  }
  if (o.shown.empty()) {
    throw InputError({}, "show: its argument is missing", "a shipped name, an alias or a file");
  }
  return write(o, [&] {
    return render_shown(show_file(o.argument, o.shown, data_of(o)), format_of(o), columns_of(o));
  });
}

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
