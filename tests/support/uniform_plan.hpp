// SPDX-License-Identifier: Apache-2.0
// The plan of one set of degrees for all stages, which must be legal.
#pragma once

#include <doctest/doctest.h>

#include <utility>
#include <variant>

#include "plan/stages/expand.hpp"
#include "plansearch/problem.hpp"

namespace plansearch::test {

inline ParallelPlan uniform_plan(const Problem& problem, const PlanDegrees& degrees) {
  auto plan = expand(degrees, *problem.network, *problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  return std::get<ParallelPlan>(std::move(plan));
}

}  // namespace plansearch::test
