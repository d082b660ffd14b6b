// SPDX-License-Identifier: Apache-2.0
// Which blocks go to which virtual stage of a pipeline, by the framework's rule.
#pragma once

#include <variant>
#include <vector>

#include "plansearch/plan/framework.hpp"
#include "plansearch/plan/infeasible.hpp"
#include "plansearch/plan/parallel_plan.hpp"
#include "plansearch/workload/operator_graph.hpp"

namespace plansearch {

/// Runs of blocks by virtual stage (chunk * stages + stage); a stage may be empty where the rule
/// leaves nothing for it.
using StageRuns = std::vector<std::vector<BlockRun>>;

[[nodiscard]] std::variant<StageRuns, Infeasible> distribute_layers(
    const Network& network, const ParallelPlan& plan, const Framework& framework);

}  // namespace plansearch
