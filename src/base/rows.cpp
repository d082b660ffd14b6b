// SPDX-License-Identifier: Apache-2.0
#include "base/rows.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PLANSEARCH_ROWS __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define PLANSEARCH_ROWS
#endif

namespace plansearch {

PLANSEARCH_ROWS void add_row(double* sums, const double* more, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += more[i];
}

PLANSEARCH_ROWS void min_plus_row(double* least, const double* row, double base,
                                  std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const double sum = base + row[i];
    least[i] = sum < least[i] ? sum : least[i];
  }
}

PLANSEARCH_ROWS void take_nearer(double* values, const double* others, const double* lengths,
                                 const double* other_lengths, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const double kept = values[i];
    const double other = others[i];
    values[i] = other_lengths[i] < lengths[i] ? other : kept;
  }
}

PLANSEARCH_ROWS void take_less(double* least, const double* others, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) least[i] = others[i] < least[i] ? others[i] : least[i];
}

}  // namespace plansearch
