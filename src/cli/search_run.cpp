// SPDX-License-Identifier: Apache-2.0
#include "cli/search_run.hpp"

#include <algorithm>
#include <utility>

#include "base/parallel.hpp"
#include "cli/degrees.hpp"
#include "cli/exit_code.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "problem/make_report.hpp"

namespace plansearch::cli {

SearchRun::SearchRun(const Options& options)
    : progress_(options), started_(std::chrono::steady_clock::now()) {}

SearchOptions SearchRun::search_options(const Options& options) {
  SearchOptions result;
  result.top = options.top;
  result.threads = options.threads > 0 ? options.threads : available_threads();
  result.pruning = options.exhaustive ? Pruning::Off : Pruning::On;
  result.interrupted = &interrupted();
  result.progress = [this](double share) { progress_.update(share); };
  if (options.time_limit_s) {
    const std::chrono::duration<double> limit(*options.time_limit_s);
    const auto left = std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit) -
                      (std::chrono::steady_clock::now() - started_);
    result.time_limit = std::max(left, std::chrono::steady_clock::duration::zero());
  }
  return result;
}

SearchResult SearchRun::run(const PlanEvaluator& evaluator, const SearchSpace& space,
                            const SearchOptions& options, std::string label) {
  progress_.begin(std::move(label));
  SearchResult result = search(evaluator, space, options);
  progress_.clear();
  if (result.completeness == Completeness::Stopped) stopped_ = true;
  return result;
}

SearchReport SearchRun::report(const Inputs& inputs, const Options& options, int gpus,
                               std::string label, NameMisses misses) {
  const Problem problem = with_gpus(inputs, gpus);
  const SearchSpace space = build_space(problem, options);
  SearchOptions wanted = search_options(options);
  if (misses == NameMisses::No) wanted.misses = 0;
  const PlanEvaluator evaluator(problem);
  const SearchResult result = run(evaluator, space, wanted, std::move(label));
  return make_report(inputs, evaluator, space, result);
}

std::optional<PlanCandidate> SearchRun::best(const Inputs& inputs, const Options& options, int gpus,
                                             std::string label) {
  const Problem problem = with_gpus(inputs, gpus);
  const SearchSpace space = build_space(problem, options);
  SearchOptions wanted = search_options(options);
  wanted.top = 1;
  wanted.misses = 0;
  const PlanEvaluator evaluator(problem);
  SearchResult result = run(evaluator, space, wanted, std::move(label));
  if (result.ranked.empty()) return std::nullopt;
  return std::move(result.ranked.front());
}

int exit_code_after(const Options& options, int otherwise) {
  if (!interrupted().load()) return otherwise;
  print_note("interrupted: this is the best so far", options);
  return kExitInterrupted;
}

}  // namespace plansearch::cli
