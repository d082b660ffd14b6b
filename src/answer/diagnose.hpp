// SPDX-License-Identifier: Apache-2.0
// Is a measured step normal, and if not, what explains it?
#pragma once

#include "question/resolve_plan.hpp"
#include "report/diagnosis.hpp"

namespace plansearch {

/// Prices the plan as asked and with every cause of causes.hpp. InputError as resolve_plan.
[[nodiscard]] DiagnosisReport diagnose(const PlanRequest& asked, Seconds measured);

}  // namespace plansearch
