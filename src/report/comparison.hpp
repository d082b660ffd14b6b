// SPDX-License-Identifier: Apache-2.0
// Two plans side by side: where the difference in step time and memory comes from.
#pragma once

#include <string>

#include "plansearch/plan_report.hpp"

namespace plansearch {

[[nodiscard]] std::string compare_plans(const PlanReport& plan, const PlanReport& rival);

}  // namespace plansearch
