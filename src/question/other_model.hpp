// SPDX-License-Identifier: Apache-2.0
// A plan that was written for another model than the one it is asked about.
#pragma once

#include <string>

#include "question/resolve_plan.hpp"

namespace plansearch {

/// Both models and the sizes in which they differ, in a sentence; empty where the plan names no
/// other model, or one that is not there any more.
[[nodiscard]] std::string other_model(const PlanRequest& asked, const ProblemFiles& files);

}  // namespace plansearch
