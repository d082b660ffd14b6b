// SPDX-License-Identifier: Apache-2.0
// Searches on behalf of a command: flags, progress and interruption in one place.
#pragma once

#include <optional>

#include "answer/search_session.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"

namespace plansearch::cli {

class SearchRun {
 public:
  explicit SearchRun(const Options& options);

  [[nodiscard]] bool stopped() const { return session_.stopped(); }
  [[nodiscard]] SearchSession& session() { return session_; }
  /// Puts the file of --all in its place; to be called before the answer is written.
  void conclude_all(const Options& options);

 private:
  std::optional<PlanFile> all_;
  Progress progress_;
  SearchSession session_;
};

/// Writes the trace that the options name, with a note instead where there is no time.
void write_trace_unless_stopped(const Problem& problem, const ParallelPlan& plan,
                                const Options& options);

/// A search that was cut short with nothing at hand has not shown that nothing fits.
[[nodiscard]] int code_of(bool found, bool stopped);

/// A remark where the search was cut short; kExitInterrupted by a signal, else `otherwise`.
[[nodiscard]] int exit_code_after(const SearchRun& run, const Options& options, int otherwise);

}  // namespace plansearch::cli
