// SPDX-License-Identifier: Apache-2.0
// A plan in a few words.
#pragma once

#include <string>

#include "plansearch/plan_report.hpp"

namespace plansearch {

/// "dp 8, pp 4, tp 2, ..." with only the degrees above one; "tp 4/2/2" where stages differ.
[[nodiscard]] std::string short_plan(const PlanSummary& plan);

}  // namespace plansearch
