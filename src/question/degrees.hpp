// SPDX-License-Identifier: Apache-2.0
// The degrees a user pinned: checked one by one, and completed into a plan.
#pragma once

#include <optional>
#include <string>

#include "plansearch/degree_table.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

struct PlanRequest;

/// The side of a square of devices: "2x2" is 2, no text 0. InputError for other texts.
[[nodiscard]] int square_side(const std::string& text);

/// Refuses contradictions that need no network to see.
void check_degrees(const PinnedDegrees& degrees, const DegreeLimits& limits = {});

/// Refuses a pinned degree that the network or the framework cannot have in any plan, and names
/// the values it can have.
void check_degrees_fit(const PinnedDegrees& degrees, const Problem& problem);
/// The same for a search: a space that cuts operators one by one takes any tensor degree.
void check_degrees_fit(const ProblemRequest& request, const Problem& problem);

/// The one plan the flags describe; what is absent takes its default, --dp what the GPUs leave.
/// InputError for degrees that do not multiply to the GPUs or divide the batch.
[[nodiscard]] PlanDegrees plan_from_degrees(const PinnedDegrees& degrees, const Problem& problem,
                                            std::optional<int> gpus);

/// The degrees of a plan; those of its first stage, whose tensor degree all have, where stages are
/// listed. `placed`: as for spelled_plan.
[[nodiscard]] PlanDegrees degrees_of(const PlanRequest& asked, bool placed,
                                     const ResolvedQuestion& question);

/// Everything as in the plan; dp only where it was asked for.
[[nodiscard]] PinnedDegrees pinned_to(const PlanDegrees& plan, const PinnedDegrees& asked);

}  // namespace plansearch
