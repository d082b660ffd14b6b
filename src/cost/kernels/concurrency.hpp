// SPDX-License-Identifier: Apache-2.0
// How fast kernels, messages and copies of one device run together.
#pragma once

#include "plansearch/cluster.hpp"
#include "plansearch/concurrency.hpp"

namespace plansearch {

/// Rates by set of activities that run at once; alone, each has the rate 1.
[[nodiscard]] ConcurrencyRates concurrency_rates(const ConcurrencyCoefficients& shared);

}  // namespace plansearch
