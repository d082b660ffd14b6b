// SPDX-License-Identifier: Apache-2.0
// Families of plans, priced by one thread under thresholds frozen before the batch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/parallel.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/search.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {

/// Plans that differ in micro-batch, chunks and schedule only: every dimension above the
/// micro-batch is decided.
struct DegreeFamily {
  PlanDegrees plan;
  /// A sample prices one micro-batch only: the one with this number, counted round the first few.
  std::optional<std::size_t> sampled;
};

/// Result of a run of families.
struct FamilyResult {
  SearchCounts counts;
  std::vector<RankedCandidate> contenders;
  std::vector<PlanCandidate> priced;  ///< the evaluated plans, simulated; where they are asked for
};

/// Prices families of one search. Thread-safe: every call works with buffers of its own.
class FamilyPricer {
 public:
  FamilyPricer(const SearchTask& task, const LegalWalk& walk);
  ~FamilyPricer();
  FamilyPricer(const FamilyPricer&) = delete;
  FamilyPricer& operator=(const FamilyPricer&) = delete;

  [[nodiscard]] FamilyResult price(std::span<const DegreeFamily> families,
                                   const Thresholds& thresholds);

 private:
  class Worker;
  Pool<std::unique_ptr<Worker>> workers_;
};

}  // namespace plansearch
