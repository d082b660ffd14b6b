// SPDX-License-Identifier: Apache-2.0
// One plan that the user described, with the problem it belongs to.
#pragma once

#include <optional>
#include <string>

#include "plansearch/load_problem.hpp"
#include "plansearch/plan.hpp"
#include "question/plan_source.hpp"

namespace plansearch {

struct ResolvedPlan {
  ResolvedQuestion asked;
  Problem problem;
  ParallelPlan plan;
  std::optional<PlanDegrees> degrees;  ///< where it is uniform and every operator cut by role
  /// With --target: why the target cannot express the plan ("error: ..." and "hint: ...").
  std::optional<std::string> inexpressible;
};

/// InputError for degrees or stages that are illegal, with the legal values.
[[nodiscard]] ResolvedPlan resolve_plan(const PlanRequest& asked);

}  // namespace plansearch
