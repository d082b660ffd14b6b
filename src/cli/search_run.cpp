// SPDX-License-Identifier: Apache-2.0
#include "cli/search_run.hpp"

#include <fmt/format.h>

#include "base/parallel.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::cli {
namespace {

SearchOptions search_options(const Options& options, Progress& progress) {
  SearchOptions result;
  result.top = options.top;
  result.threads = threads_of(options);
  result.pruning = options.exhaustive ? Pruning::Off : Pruning::On;
  result.progress = [&progress](const SearchProgress& done) { progress.update(done); };
  return result;
}

}  // namespace

SearchRun::SearchRun(const Options& options)
    : progress_(options),
      session_(search_options(options, progress_), [this](const std::string& label) {
        if (label.empty()) {
          progress_.clear();
        } else {
          progress_.begin(label);
        }
      }) {
  if (options.pareto || !options.page.empty() || !options.plots.empty() ||
      format_of(options) == Format::Json) {
    session_.show_front();
  }
  if (options.beyond) session_.look_beyond(Beyond::All);
  if (options.no_beyond) session_.look_beyond(Beyond::None);
  if (options.all.empty()) return;
  all_.emplace(options.all, threads_of(options));
  session_.write_all_to(*all_);
}

void SearchRun::conclude_all(const Options& options) {
  if (all_) print_note(all_->conclude(), options);
}

void write_trace_unless_stopped(const Problem& problem, const ParallelPlan& plan,
                                const Options& options) {
  const bool written = unless_stopped([&] {
    write_trace(problem, plan, {options.trace, options.force});
    return true;
  });
  if (!written) print_note("note: stopped before the trace was written", options);
}

int code_of(bool found, bool stopped) {
  if (found) return kExitOk;
  return stopped ? kExitInterrupted : kExitInfeasible;
}

int exit_code_after(const SearchRun& run, const Options& options, int otherwise) {
  if (!run.stopped()) return otherwise;
  const StopReason reason = stop_reason();
  const bool found = otherwise != kExitInterrupted;
  print_note(fmt::format("{}: {}", to_text(reason),
                         found ? "this is the best so far" : "nothing was found so far"),
             options);
  return reason == StopReason::Signal ? kExitInterrupted : otherwise;
}

}  // namespace plansearch::cli
