// SPDX-License-Identifier: Apache-2.0
// The second mode in which some runs on a fabric were measured: what a plan takes there, and how
// often.
#pragma once

#include <optional>

#include "plansearch/plan_report.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// Nothing where the fabric has no such mode or the plan has no pipeline; the excess is that of the
/// prediction itself, without the factor of a site.
[[nodiscard]] std::optional<SlowRuns> slow_runs(const Cluster& cluster, const PlanDegrees& plan,
                                                int devices);

}  // namespace plansearch
