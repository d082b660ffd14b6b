// SPDX-License-Identifier: Apache-2.0
// Plans from the arguments that training programs print at the head of their logs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "question/resolve_plan.hpp"

namespace plansearch {

/// The plan that a log says it is of, completed by what the user typed, which wins; with remarks for
/// the reader. Nothing where the log prints no arguments, and in builds that do not read them.
/// InputError for arguments that contradict each other and for a network that does not ship.
[[nodiscard]] std::optional<PlanRequest> plan_in_log(const std::string& log,
                                                     const ProblemRequest& typed,
                                                     std::vector<std::string>& notes);

/// The plan of a run: of the plan file, else of its log, else what was typed.
[[nodiscard]] PlanRequest plan_of_run(const ProblemRequest& typed, const std::string& plan,
                                      const std::string& log, std::vector<std::string>& notes);

}  // namespace plansearch
