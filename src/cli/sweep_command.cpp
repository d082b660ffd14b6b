// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "answer/sweep.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "plansearch/error.hpp"
#include "report/text_table.hpp"

namespace plansearch::cli {
namespace {

/// "3/8": the third of eight processes.
Shard read_shard(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t slash = text.find('/');
  const auto part = parse_as<std::size_t>(text.substr(0, slash));
  const auto of =
      slash == std::string::npos ? std::nullopt : parse_as<std::size_t>(text.substr(slash + 1));
  if (!part || !of || *part < 1 || *of < *part) {
    throw InputError({}, fmt::format("--shard {}: expected i/n with 1 <= i <= n", text),
                     "--shard 3/8: the third of eight processes");
  }
  return {*part - 1, *of};
}

std::string words_of(const SweepSummary& summary, const std::string& out) {
  std::string text = fmt::format("{}: {} {}", out, summary.questions,
                                 summary.questions == 1 ? "answer" : "answers");
  if (summary.known > 0) text += fmt::format(", {} of them known before", summary.known);
  if (summary.without_plan > 0) text += fmt::format("; no plan fits {}", summary.without_plan);
  if (summary.refused > 0)
    text += fmt::format("; {} cannot be asked, their rows say why", summary.refused);
  return text;
}

}  // namespace

int run_sweep(const Options& options) {
  if (options.out.empty()) {
    throw InputError({}, "sweep: --out is missing", "a .csv, .jsonl, .sqlite or .db file");
  }
  if (options.format != "table") {
    throw InputError({}, fmt::format("sweep takes no --format {}", options.format),
                     "the ending of --out says it: .csv, .jsonl, .sqlite or .db");
  }
  SweepRequest request;
  request.questions = options.argument;
  request.common = options;
  request.shard = read_shard(options.shard);
  request.out = options.out;
  request.known = {options.known.begin(), options.known.end()};
  request.threads = threads_of(options);
  request.plots = options.plots;
  Progress progress(options);
  progress.begin("of the questions");
  const SweepSummary summary = sweep(request, [&](const SweepProgress& done) {
    progress.update({static_cast<double>(done.done) / static_cast<double>(done.all), {}});
  });
  progress.clear();
  if (summary.stopped) {
    print_note(fmt::format("stopped: answers so far are in {}; the same command goes on",
                           summary.journal.string()),
               options);
    return kExitInterrupted;
  }
  print_note(words_of(summary, options.out), options);
  const bool none = summary.refused > 0 && summary.refused == summary.questions;
  return none ? kExitBadInput : kExitOk;
}

}  // namespace plansearch::cli
