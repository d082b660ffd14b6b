// SPDX-License-Identifier: Apache-2.0
// Spaces for tests, written down value by value.
#pragma once

#include <vector>

#include "search/space/degrees_of_freedom.hpp"

namespace plansearch::test {

/// Every plan of the space, by walking it.
[[nodiscard]] inline std::vector<PlanDegrees> all_plans(const SearchSpace& space) {
  const SpaceWalk walk(space);
  std::vector<PlanDegrees> plans;
  walk.for_each_plan(0, walk.depth(), PlanDegrees{},
                     [&](const PlanDegrees& plan) { plans.push_back(plan); });
  return plans;
}

[[nodiscard]] inline std::int64_t count_plans(const SearchSpace& space) {
  const SpaceWalk walk(space);
  return SpaceCounter(walk).all();
}

}  // namespace plansearch::test
