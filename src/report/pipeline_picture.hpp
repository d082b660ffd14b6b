// SPDX-License-Identifier: Apache-2.0
// The order in which a plan's stages work, drawn as a grid of text.
#pragma once

#include <string>

#include "plansearch/degrees.hpp"

namespace plansearch {

/// The schedule of the plan with equal stages, a backward twice a forward and no transfers; at
/// most 8 stages and as many micro-batches as fit a page (the caption says so).
[[nodiscard]] std::string pipeline_picture(const PlanDegrees& plan);

}  // namespace plansearch
