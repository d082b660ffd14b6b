// SPDX-License-Identifier: Apache-2.0
// Computes: products of matrices over (min, +).
// Source: Bellman; merging of segments in PrimePar (ASPLOS 2024), section 5.
// Assumes: costs are not NaN.
// Units: those of the caller.
// Checked by: tests/unit/search/cost_table_test.cpp
#include "search/solvers/min_plus.hpp"

#include <limits>

#include "base/rows.hpp"

namespace plansearch {

std::vector<double> min_plus(const std::vector<double>& left, const std::vector<double>& right,
                             std::size_t size) {
  constexpr double kImpossible = std::numeric_limits<double>::infinity();
  std::vector<double> result(size * size, kImpossible);
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = 0; b < size; ++b) {
      const double base = left[a * size + b];
      if (base != kImpossible) min_plus_row(&result[a * size], &right[b * size], base, size);
    }
  }
  return result;
}

}  // namespace plansearch
