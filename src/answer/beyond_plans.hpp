// SPDX-License-Identifier: Apache-2.0
// Plans that beat all that a framework's own search finds, by ideas that it does not try.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// The question of plans beyond a framework, and when one of them is worth a line.
struct BeyondGoal {
  const ResolvedQuestion& wider;   ///< as asked, of the framework as if it ran everything
  const PlanEvaluator& evaluator;  ///< of that
  const Framework& own;
  MemoryFit admitted;  ///< as surely in memory as the plans of the table
  Seconds enough;      ///< slower plans tie with plan 1
  Seconds shown;       ///< the step of plan 1 as tables have it
};

/// Whether the plan has the degrees that the question decides.
[[nodiscard]] bool keeps(const ProblemRequest& request, const PlanDegrees& plan);

/// A plan that was found, beside plan 1. `runs_in`: who runs it. `options`: those of its command
/// that are not settings.
[[nodiscard]] BeyondReport told(const BeyondGoal& goal, const ProblemRequest& request,
                                const PlanEvaluator& evaluator, const PlanDegrees& degrees,
                                const PlanCandidate& found, const std::string& what,
                                std::string runs_in, const std::string& options = {});

/// Where the search under shipped constraints (constraints/*.yaml) went.
struct ConstraintSearch {
  bool tried = false;                 ///< whether one of them means something of the network
  std::vector<BeyondReport> found{};  ///< of each the best plan that is fast enough, if any
};
/// Tries them on plans that have the devices of `first`, traded between its degrees; as far as so
/// much work goes (check_work).
[[nodiscard]] ConstraintSearch under_constraints(const BeyondGoal& goal, const PlanDegrees& first,
                                                 std::int64_t most_work);

}  // namespace plansearch
