// SPDX-License-Identifier: Apache-2.0
// The best plans whose stages may differ in layers, devices, degrees and recomputation, by what
// this program predicts for whole plans.
#pragma once

#include <cstdint>

#include "search/strategies/strategy.hpp"

namespace plansearch {

inline constexpr std::int64_t kMostExtended = 200'000;

/// The best plan of equal stages comes first, so that no answer is worse. Then plans are taken in
/// the order of an admissible bound and simulated, until the bound exceeds the best: that one is
/// optimal. Beyond `most_extended` partial plans, or after thousands of whole ones in vain, the
/// search stops and says how far it can be from the optimum.
[[nodiscard]] SearchPart uneven_part(const SearchRequest& request,
                                     std::int64_t most_extended = kMostExtended);

}  // namespace plansearch
