// SPDX-License-Identifier: Apache-2.0
// Products and sums of counts that stay inside their type.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

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

}  // namespace plansearch
