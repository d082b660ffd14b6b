// SPDX-License-Identifier: Apache-2.0
// Searches on behalf of a command: threads, limits, progress and interruption in one place.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/load.hpp"
#include "cli/progress.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"

namespace plansearch::cli {

/// Whether to look for the plans that exceed memory least, where nothing fits.
enum class NameMisses { No, Yes };

class SearchRun {
 public:
  explicit SearchRun(const Options& options);

  /// The best plans on `gpus` accelerators.
  [[nodiscard]] SearchReport report(const Inputs& inputs, const Options& options, int gpus,
                                    std::string label, NameMisses misses);
  /// The best plan only, without a report; nothing when none fits.
  [[nodiscard]] std::optional<PlanCandidate> best(const Inputs& inputs, const Options& options,
                                                  int gpus, std::string label);
  /// True when a limit or an interrupt has cut a search short.
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] Progress& progress() { return progress_; }

 private:
  [[nodiscard]] SearchOptions search_options(const Options& options);
  [[nodiscard]] SearchResult run(const PlanEvaluator& evaluator, const SearchSpace& space,
                                 const SearchOptions& options, std::string label);

  Progress progress_;
  std::chrono::steady_clock::time_point started_;
  bool stopped_ = false;
};

/// kExitInterrupted after Ctrl-C (with a remark), else `otherwise`.
[[nodiscard]] int exit_code_after(const Options& options, int otherwise);

}  // namespace plansearch::cli
