// SPDX-License-Identifier: Apache-2.0
// How fast plans are priced, in processor time of one core.
#pragma once

#include <string>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/space.hpp"

namespace plansearch::cli {

struct Rate {
  std::string what;
  double per_second = 0.0;
};

/// Legality, profiles, bounds, estimates and simulations over a sample of the legal plans of a
/// space, and one pipeline of 16 stages with 64 micro-batches.
[[nodiscard]] std::vector<Rate> measure_rates(const PlanEvaluator& evaluator,
                                              const SearchSpace& space);

}  // namespace plansearch::cli
