// SPDX-License-Identifier: Apache-2.0
// Counts: products and sums that stay inside their type, and divisors.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace plansearch {

/// The product of counts of at least 1, or nothing when it is above `most`; nothing beyond `most`
/// is ever computed. A count below 1 makes nothing too.
template <typename Counts>
[[nodiscard]] constexpr std::optional<std::int64_t> product_within(std::int64_t most,
                                                                   const Counts& counts) {
  std::int64_t product = 1;
  for (const std::int64_t count : counts) {
    if (count < 1 || product > most / count) return std::nullopt;
    product *= count;
  }
  return product;
}

/// A count of things as a whole number; the largest there is for more than that.
[[nodiscard]] constexpr std::int64_t saturated(double count) {
  constexpr double kBeyond = 9.2233720368547758e18;  // 2^63
  return count >= kBeyond ? std::numeric_limits<std::int64_t>::max()
                          : static_cast<std::int64_t>(count);
}

/// The sum of counts of at least 0; the largest number for more than that.
[[nodiscard]] constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

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
