// SPDX-License-Identifier: Apache-2.0
// How well a fit predicts rows that it did not see.
#pragma once

#include <optional>
#include <span>

#include "plansearch/kernel_curves.hpp"
#include "studies/fit/curve_fit.hpp"

namespace plansearch {

struct HeldOut {
  double error = 0.0;  ///< median |ln(measured / predicted)|
  Residual residual;   ///< quantiles of ln(measured / predicted)
};

/// Each of the kept rows as fits to four fifths of them predict it. Nothing for fewer than ten
/// rows, for more than a thousand (which no few decide), and where a part has no fit.
[[nodiscard]] std::optional<HeldOut> held_out(const CurveProblem& problem,
                                              std::span<const std::size_t> kept);

}  // namespace plansearch
