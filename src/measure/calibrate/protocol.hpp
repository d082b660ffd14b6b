// SPDX-License-Identifier: Apache-2.0
// How one point is measured: warm-up until times agree, then blocks of calls.
#pragma once

#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {

struct Protocol {
  double longest_warm_up = 0.5;  ///< seconds
  double block = 0.1;            ///< seconds that the calls of a block should take
  int blocks = 7;
  [[nodiscard]] static Protocol quick() { return {0.1, 0.02, 5}; }
  /// Seconds for a point whose call takes so long.
  [[nodiscard]] double cost(double call) const;
};

/// The median of the blocks. A backend that returns nothing usable gives a sample with `failed`.
[[nodiscard]] io::Sample measure(Backend& backend, const Point& point, const Protocol& protocol);

}  // namespace plansearch::calibrate
