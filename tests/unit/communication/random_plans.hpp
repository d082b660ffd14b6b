// SPDX-License-Identifier: Apache-2.0
// Plans drawn at random from everything that placements tell apart.
#pragma once

#include <random>

#include "plansearch/degrees.hpp"

namespace plansearch::test {

inline PlanDegrees random_plan(std::mt19937& engine, bool experts) {
  const auto power = [&](unsigned most) { return 1 << (engine() % (most + 1)); };
  PlanDegrees plan;
  plan.data = power(3) * (engine() % 3 == 0 ? 3 : 1);
  plan.tensor_out = power(2);
  plan.tensor_in = power(1);
  plan.tensor_depth = power(1);
  plan.context = power(2);
  plan.context_kind = static_cast<ContextKind>(engine() % 2);
  plan.sequence_parallel = static_cast<SequenceParallel>(engine() % 2);
  plan.micro_batch = 1 + static_cast<int>(engine() % 4);
  plan.pipeline = power(3);
  if (experts) {
    plan.tensor_in = plan.tensor_depth = 1;
    plan.expert = power(3);
    plan.expert_tensor = engine() % 2 == 0 ? plan.tensor_out : 1;
    const int ranks = plan.data * plan.context * plan.tensor_out;
    if (ranks % (plan.expert * plan.expert_tensor) != 0) plan.expert = plan.expert_tensor = 1;
  }
  return plan;
}

}  // namespace plansearch::test
