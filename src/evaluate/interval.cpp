// SPDX-License-Identifier: Apache-2.0
// Computes: p10 and p90 of a log-normal error.
// Source: quantiles of the normal distribution.
// Assumes: errors are log-normal around the prediction with the framework's sigma.
// Units: ratios.
// Checked by: tests/unit/evaluate/interval_test.cpp; coverage in docs/validation.md
#include "plansearch/evaluate/interval.hpp"

#include <cmath>

namespace plansearch {

RelativeInterval relative_interval(double sigma) {
  constexpr double kNormalP90 = 1.2815515655446004;
  return {std::exp(-kNormalP90 * sigma), std::exp(kNormalP90 * sigma)};
}

}  // namespace plansearch
