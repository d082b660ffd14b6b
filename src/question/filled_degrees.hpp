// SPDX-License-Identifier: Apache-2.0
// Degrees that a plan file left open, and the source of their values.
#pragma once

#include "question/resolve_plan.hpp"

namespace plansearch {

/// Adds what the file of a plan left open of its degrees, order and operators to the settings of
/// the answer, with where each value comes from. Nothing where no file gave any part of the plan.
void note_filled(const PlanRequest& asked, ResolvedPlan& given);

}  // namespace plansearch
