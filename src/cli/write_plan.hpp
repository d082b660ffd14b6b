// SPDX-License-Identifier: Apache-2.0
// A given plan as a plan file.
#pragma once

#include "cli/given_plan.hpp"

namespace plansearch::cli {

/// Writes the files that --write-plan and --write-stages ask for: the plan with its question, as it
/// was given and stage by stage.
void write_plan_files(const Options& asked, const GivenPlan& given);

}  // namespace plansearch::cli
