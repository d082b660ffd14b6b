// SPDX-License-Identifier: Apache-2.0
// Samples, curve and residuals of a fit, drawn.
#pragma once

#include <string>

#include "studies/fit/kernel_fit.hpp"

namespace plansearch {

/// SVG: of each group, measured over predicted times on the left, what is left of them on the right
/// with the interval of rows that the fit did not see.
[[nodiscard]] std::string fit_plot(const KernelFit& fit);

}  // namespace plansearch
