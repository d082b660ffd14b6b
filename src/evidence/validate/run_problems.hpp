// SPDX-License-Identifier: Apache-2.0
// Measured runs sorted into problems: rows of one problem share an evaluator and its profiles.
#pragma once

#include <utility>
#include <vector>

#include "evidence/validate/run_case.hpp"
#include "evidence/validate/run_prediction.hpp"
#include "plansearch/load_problem.hpp"

namespace plansearch {

/// Rows of one problem share an evaluator and its profiles.
struct RunGroup {
  ResolvedQuestion settled;
  std::vector<std::pair<PredictedRun*, RunCase>> rows;
};

/// Notes in the predictions what is filled, in which regime a run is, and why it is inexpressible.
[[nodiscard]] std::vector<RunGroup> group_by_problem(std::vector<PredictedRun>& rows,
                                                     const ArchitectureTable& table,
                                                     const ProfileFinder& finder);

}  // namespace plansearch
