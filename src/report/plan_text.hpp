// SPDX-License-Identifier: Apache-2.0
// A plan in a few words.
#pragma once

#include <string>

#include "plansearch/degrees.hpp"

namespace plansearch {

/// "dp 8, pp 4, tp 2, ..." with only the degrees above one.
[[nodiscard]] std::string short_plan(const PlanDegrees& plan);

}  // namespace plansearch
