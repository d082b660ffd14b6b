// SPDX-License-Identifier: Apache-2.0
// Causes of a slow step: settings that may differ in a run from the stated ones, each a question.
#pragma once

#include <string>
#include <vector>

#include "question/resolve_plan.hpp"

namespace plansearch {

/// The same question with one thing changed.
struct Cause {
  std::string what;
  std::string check;
  double odds = 0.1;  ///< before any measurement, against a run in which nothing is wrong
  PlanRequest request;
  ProblemFiles files;
};

/// Those that the question leaves open, and faults that no setting states. `given` is the plan as
/// it would be priced.
[[nodiscard]] std::vector<Cause> possible_causes(const PlanRequest& asked,
                                                 const ResolvedPlan& given);

}  // namespace plansearch
