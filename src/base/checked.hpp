// SPDX-License-Identifier: Apache-2.0
// Products of counts that somebody typed.
#pragma once

#include <cstdint>
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

}  // namespace plansearch
