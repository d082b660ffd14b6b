// SPDX-License-Identifier: Apache-2.0
// A given plan as a plan file.
#pragma once

#include <string>

#include "question/resolve_plan.hpp"

namespace plansearch {

/// Writes the plan with its question to files, as it was given and stage by stage; empty: not.
void write_plan_files(const ResolvedPlan& given, const std::string& plan,
                      const std::string& stages);

/// A hash of the plan and of every setting that a price depends on: the same however files were
/// named.
[[nodiscard]] std::string plan_identity(const ResolvedPlan& given);

}  // namespace plansearch
