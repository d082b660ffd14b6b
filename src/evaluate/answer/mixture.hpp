// SPDX-License-Identifier: Apache-2.0
// Quantiles of a step of which it is not known which of several it is.
#pragma once

#include <vector>

namespace plansearch {

/// One of several steps: its median, the deviations of its logarithm below and above, and how
/// likely it is against the others.
struct MixturePart {
  double median = 1.0;
  double below = 0.0;
  double above = 0.0;
  double odds = 1.0;
};

/// The time that a share of all runs stays below; of one part its own quantile.
[[nodiscard]] double mixture_quantile(const std::vector<MixturePart>& parts, double share);

}  // namespace plansearch
