// SPDX-License-Identifier: Apache-2.0
// The chance that a plan runs out of memory.
#pragma once

#include "plansearch/framework_constants.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// The probability that a plan of this predicted peak needs more than `limit`. `certain`: of the
/// peak, what is known to the byte; only the rest has an error.
[[nodiscard]] double risk_of_memory(const MemoryError& error, Bytes predicted, Bytes limit,
                                    Bytes certain = {});

/// The largest predicted peak whose risk is at most `risk` (above 0, below 1): what a threshold on
/// the risk is as a threshold on bytes.
[[nodiscard]] Bytes peak_at_risk(const MemoryError& error, double risk, Bytes limit,
                                 Bytes certain = {});

}  // namespace plansearch
