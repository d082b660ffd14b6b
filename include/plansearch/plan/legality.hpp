// SPDX-License-Identifier: Apache-2.0
// Whether a network and a framework allow a plan; memory is not looked at.
#pragma once

#include <optional>

#include "plansearch/plan/framework.hpp"
#include "plansearch/plan/infeasible.hpp"
#include "plansearch/plan/parallel_plan.hpp"
#include "plansearch/workload/operator_graph.hpp"

namespace plansearch {

/// The first obstacle with words for the user; nothing when the plan is legal.
[[nodiscard]] std::optional<Infeasible> check_legality(const ParallelPlan& plan,
                                                       const Network& network,
                                                       const Framework& framework, int gpus);
/// The same without words: cheap enough for every plan of a search.
[[nodiscard]] std::optional<Obstacle> find_obstacle(const ParallelPlan& plan,
                                                    const Network& network,
                                                    const Framework& framework, int gpus);

}  // namespace plansearch
