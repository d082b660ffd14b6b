// SPDX-License-Identifier: Apache-2.0
#include "base/rows.hpp"

#include <algorithm>
#include <limits>

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

PLANSEARCH_ROWS double least_sum(const double* row, const double* more, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double least[kLanes];
  for (double& lane : least) lane = std::numeric_limits<double>::infinity();
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double sum = row[i + lane] + more[i + lane];
      least[lane] = sum < least[lane] ? sum : least[lane];
    }
  }
  for (; i < count; ++i) least[0] = std::min(least[0], row[i] + more[i]);
  return *std::min_element(least, least + kLanes);
}

}  // namespace plansearch
