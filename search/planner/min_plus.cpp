// SPDX-License-Identifier: Apache-2.0
// Computes: products of matrices over (min, +).
// Source: Bellman; merging of segments in PrimePar (ASPLOS 2024), section 5.
// Assumes: costs are not NaN.
// Units: those of the caller.
// Checked by: tests/unit/search/cost_table_test.cpp
#include "search/planner/min_plus.hpp"

#include <algorithm>
#include <limits>

namespace plansearch {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx2", "default"), optimize("O3")))
#endif
void min_plus_row(double* least, const double* row, double base, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const double sum = base + row[i];
    least[i] = sum < least[i] ? sum : least[i];
  }
}

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
