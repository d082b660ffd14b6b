// SPDX-License-Identifier: Apache-2.0
// A given plan as a plan file.
#pragma once

#include "problem/given_plan.hpp"

namespace plansearch {

/// Writes the plan with its question to files, as it was given and stage by stage; empty: not.
void write_plan_files(const ProblemRequest& asked, const GivenPlan& given, const std::string& plan,
                      const std::string& stages);

}  // namespace plansearch
