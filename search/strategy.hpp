// SPDX-License-Identifier: Apache-2.0
// How plans are found: a strategy offers plans of a space to the judge, which ranks them all.
#pragma once

#include <chrono>

#include "plansearch/search.hpp"
#include "search/judge.hpp"
#include "search/legal_walk.hpp"

namespace plansearch {

/// The options with the time that is left of what began then: for searches inside a search.
[[nodiscard]] SearchOptions with_time_left(SearchOptions options,
                                           std::chrono::steady_clock::time_point started);

/// Says when a search has to stop before its end.
class Deadline {
 public:
  explicit Deadline(const SearchOptions& options)
      : options_(options), started_(std::chrono::steady_clock::now()) {}
  [[nodiscard]] bool passed() const;
  [[nodiscard]] SearchOptions left() const { return with_time_left(options_, started_); }

 private:
  const SearchOptions& options_;
  std::chrono::steady_clock::time_point started_;
};

/// What a strategy works on.
struct SearchTask {
  const PlanEvaluator& evaluator;
  const LegalWalk& walk;
  const SearchOptions& options;
  const Deadline& deadline;
  MemoryLimits limits;
};

/// Offers plans to the judge and accounts for every plan of the space it has dealt with in
/// `result.counts`; sets `result.completeness` when the deadline cut it short.
using Strategy = void (*)(const SearchTask& task, Judge& judge, SearchResult& result);

/// Looks at every plan, subtrees that cannot enter the answer as one.
void enumerate_plans(const SearchTask& task, Judge& judge, SearchResult& result);

/// The plans that exceed memory least, nearest first; for spaces in which nothing fits.
[[nodiscard]] std::vector<NearMiss> nearest_misses(const SearchTask& task, std::size_t count);

}  // namespace plansearch
