// SPDX-License-Identifier: Apache-2.0
// Several searches on behalf of one question: one time limit and one interrupt for all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "answer/make_report.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// Whether to look for the plans that exceed memory least, where nothing fits.
enum class NameMisses { No, Yes };

class PlanFile;

/// InputError that says why there is no plan, and near which sizes there is one.
[[noreturn]] void refuse_question(const Infeasible& infeasible,
                                  const std::vector<std::string>& near = {});

class SearchSession {
 public:
  /// `options.time_limit` counts from here. `announce` is told what is looked for before every
  /// search, and nothing ("") after it.
  SearchSession(SearchOptions options, std::function<void(const std::string& label)> announce);

  /// The best plans of the request's space on `gpus` accelerators, or why it has none at all.
  [[nodiscard]] std::variant<SearchReport, Infeasible> report(const ResolvedQuestion& asked,
                                                              const ProblemRequest& request,
                                                              int gpus, const std::string& label,
                                                              NameMisses misses);
  /// The best plan only, at the site asked about, without a report; nothing when none fits or there
  /// is none.
  [[nodiscard]] std::optional<PlanCandidate> best(const ResolvedQuestion& asked,
                                                  const ProblemRequest& request, int gpus,
                                                  const std::string& label);
  /// Reports from here on hold the Pareto front too.
  void show_front() { front_ = FrontShown::Yes; }
  /// Every plan that reports are about goes to a file as well.
  void write_all_to(PlanFile& file) { all_ = &file; }
  /// True when a limit or an interrupt has cut a search short.
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Side questions from here on may look into so many families of plans in all, the same number on
  /// any machine; the search that goes beyond it still ends.
  void allow(std::int64_t families) { most_families_ = families_ + families; }
  [[nodiscard]] bool may_go_on() const { return !stopped_ && families_ <= most_families_; }

 private:
  /// In the time that is left, with progress in steps at the site of the question.
  [[nodiscard]] SearchOptions limited(SearchOptions options, const Problem& problem) const;
  [[nodiscard]] std::variant<SearchResult, Infeasible> run(const PlanEvaluator& evaluator,
                                                           const ProblemRequest& request,
                                                           std::string_view space,
                                                           SearchOptions options,
                                                           const std::string& label);

  SearchOptions options_;
  std::function<void(const std::string&)> announce_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  bool stopped_ = false;
  FrontShown front_ = FrontShown::No;
  PlanFile* all_ = nullptr;
  std::int64_t families_ = 0;
  std::int64_t most_families_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace plansearch
