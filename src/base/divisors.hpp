// SPDX-License-Identifier: Apache-2.0
// Divisors, which is what degrees may be.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace plansearch {

/// The divisors of `n` up to `most`, ascending.
[[nodiscard]] inline std::vector<int> divisors(
    std::int64_t n, std::int64_t most = std::numeric_limits<int>::max()) {
  std::vector<int> small;
  std::vector<int> large;
  for (std::int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    if (i <= most) small.push_back(static_cast<int>(i));
    if (i != n / i && n / i <= most) large.push_back(static_cast<int>(n / i));
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

}  // namespace plansearch
