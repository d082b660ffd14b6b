// SPDX-License-Identifier: Apache-2.0
// One plan that the user described, with the problem it belongs to.
#pragma once

#include <optional>
#include <string>

#include "cli/load.hpp"
#include "cli/plan_source.hpp"
#include "plansearch/plan.hpp"

namespace plansearch::cli {

struct GivenPlan {
  Inputs inputs;
  Problem problem;
  ParallelPlan plan;
  std::optional<PlanDegrees> degrees;  ///< where it is uniform
  /// With --target: why the target cannot express the plan ("error: ..." and "hint: ...").
  std::optional<std::string> inexpressible;
};

/// InputError for degrees or stages that are illegal, with the legal values.
[[nodiscard]] GivenPlan load_given_plan(const AskedOptions& asked);

}  // namespace plansearch::cli
