// SPDX-License-Identifier: Apache-2.0
// Error bars of predictions.
#pragma once

namespace plansearch {

/// Quantiles of the step time relative to its median, for log-normal errors of size sigma.
struct RelativeInterval {
  double p10 = 1.0;
  double p90 = 1.0;
};
[[nodiscard]] RelativeInterval relative_interval(double sigma);

}  // namespace plansearch
