// SPDX-License-Identifier: Apache-2.0
// Plans that come from files: plan documents and entries of earlier answers.
#pragma once

#include <optional>
#include <string>

#include "io/plan_document.hpp"
#include "plansearch/load_problem.hpp"

namespace plansearch {

/// What is asked, what a plan file left open filled in from it.
struct PlanRequest {
  ProblemRequest request;
  std::optional<io::StagesDocument> stages;  ///< of a plan document that spells them out
  std::optional<io::PlacementsDocument> placements{};
};

/// Completes the request by a plan ("plan.yaml", "result.json#2"): what the user left open comes
/// from the file. Without a plan the request as it is.
[[nodiscard]] PlanRequest complete_from_plan(const ProblemRequest& request,
                                             const std::string& plan);

}  // namespace plansearch
