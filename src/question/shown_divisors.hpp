// SPDX-License-Identifier: Apache-2.0
// Divisors as hints list them.
#pragma once

#include <cstdint>

#include "base/divisors.hpp"

namespace plansearch {

/// Divisors above this are not listed in hints.
inline constexpr std::int64_t kShownDivisors = 4096;

}  // namespace plansearch
