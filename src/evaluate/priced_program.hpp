// SPDX-License-Identifier: Apache-2.0
// The program of a plan: every instruction of one step with the plan's own times and bytes.
#pragma once

#include <vector>

#include "evaluate/plan_view.hpp"
#include "plansearch/evaluator.hpp"
#include "schedule/simulated_program.hpp"

namespace plansearch {

/// One place in the pipeline as readers see it.
struct ProgramDevice {
  int first_rank = 0;
  int ranks = 1;
  Bytes always;  ///< memory beside what the program allocates
};

struct PricedProgram : SimulatedProgram {
  PipelineShape shape;
  std::vector<ProgramDevice> devices;
};

[[nodiscard]] PricedProgram priced_program(const PlanView& view, const ProgramRequest& request,
                                           EvaluationWorkspace& workspace);

}  // namespace plansearch
