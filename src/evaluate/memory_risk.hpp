// SPDX-License-Identifier: Apache-2.0
// The chance that a plan runs out of memory.
#pragma once

#include "plansearch/quantity.hpp"

namespace plansearch {

/// How far what a plan really needs lies from its predicted peak: half of all plans need more than
/// `median` times it, and around that the logarithm is normal, with a deviation of its own on
/// either side.
struct MemoryError {
  double median = 1.0;
  double below = 0.0;
  double above = 0.0;
};

/// The probability that a plan of this predicted peak needs more than `limit`.
[[nodiscard]] double risk_of_memory(const MemoryError& error, Bytes predicted, Bytes limit);

/// The largest predicted peak whose risk is at most `risk` (above 0, below 1): what a threshold on
/// the risk is as a threshold on bytes.
[[nodiscard]] Bytes peak_at_risk(const MemoryError& error, double risk, Bytes limit);

}  // namespace plansearch
