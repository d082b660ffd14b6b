// SPDX-License-Identifier: Apache-2.0
// Computes: the probability that a plan needs more memory than there is, and its inverse.
// Source: ln(needed / predicted) of measured peaks by framework (tools/memory_error.py); two halves
//         of normal distributions that meet at the median (Fechner 1897, "two-piece normal").
// Assumes: the error does not depend on the plan; weights that are not trained have none: they are
//          loaded as they lie in a file, and no optimizer, gradient or allocation depends on them.
// Units: bytes; probabilities.
// Checked by: tests/unit/evaluate/memory_risk_test.cpp; observed failures in docs/validation.md
#include "evaluate/memory/memory_risk.hpp"

#include <cmath>
#include <numbers>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

double normal_above(double deviations) {
  return 0.5 * std::erfc(deviations / std::numbers::sqrt2);
}

/// The number of deviations above which a normal variable lies with this probability.
double deviations_with(double probability) {
  double low = -40.0;
  double high = 40.0;
  for (int halvings = 0; halvings < 100; ++halvings) {
    const double middle = 0.5 * (low + high);
    (normal_above(middle) > probability ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

double risk_of_memory(const MemoryError& error, Bytes predicted, Bytes limit, Bytes certain) {
  if (predicted <= certain) return predicted <= limit ? 0.0 : 1.0;
  if (limit <= certain) return 1.0;
  const double room = std::log((limit - certain) / ((predicted - certain) * error.median));
  const double deviation = room > 0.0 ? error.above : error.below;
  if (deviation <= 0.0) return room < 0.0 ? 1.0 : 0.0;
  return normal_above(room / deviation);
}

Bytes peak_at_risk(const MemoryError& error, double risk, Bytes limit, Bytes certain) {
  PLANSEARCH_CHECK(risk > 0.0 && risk < 1.0);
  const double deviations = deviations_with(risk);
  const double room = deviations * (deviations > 0.0 ? error.above : error.below);
  return certain + (limit - certain) * (std::exp(-room) / error.median);
}

}  // namespace plansearch
