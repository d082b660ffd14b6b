// SPDX-License-Identifier: Apache-2.0
// Measured runs sorted into problems: rows of one problem share an evaluator and its profiles.
#pragma once

#include <vector>

#include "plansearch/load_problem.hpp"
#include "studies/validate/run_case.hpp"
#include "studies/validate/run_prediction.hpp"

namespace plansearch {

/// Rows of one problem share an evaluator and its profiles.
struct RunGroup {
  SettledProblem settled;
  std::vector<std::size_t> rows;
};

struct PreparedRuns {
  std::vector<RunCase> cases;  ///< by row; meaningless where the prediction says inexpressible
  std::vector<RunGroup> groups;
};

/// Notes in the predictions what is filled, in which regime a run is, and why it is inexpressible.
[[nodiscard]] PreparedRuns prepare_runs(const std::vector<RunRecord>& runs,
                                        const ArchitectureTable& table, const ProfileFinder& finder,
                                        std::vector<RunPrediction>& predictions);

}  // namespace plansearch
