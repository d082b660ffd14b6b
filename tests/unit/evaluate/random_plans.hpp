// SPDX-License-Identifier: Apache-2.0
// Legal plans of a toy problem, drawn over every degree the evaluator knows.
#pragma once

#include <optional>
#include <random>
#include <string>

#include "plansearch/evaluator.hpp"
#include "support/schedules.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::test {

/// A power of two from 1 to `most`; the same on every platform.
inline int power_of_two(std::mt19937& engine, int most) {
  int value = 1;
  while (2 * value <= most && engine() % 2 == 0) value *= 2;
  return value;
}

/// Legal or not; the degrees multiply to the number of GPUs.
inline PlanDegrees any_plan(std::mt19937& engine, const Problem& problem) {
  const auto up_to = [&](unsigned limit) { return static_cast<int>(engine() % limit); };
  PlanDegrees plan;
  int left = problem.gpus;
  const auto take = [&](int most) {
    const int size = power_of_two(engine, std::min(most, left));
    left /= size;
    return size;
  };
  plan.tensor_out = take(8);
  plan.pipeline = take(8);
  plan.context = up_to(3) == 0 ? take(4) : 1;
  plan.tensor_in = up_to(4) == 0 ? take(2) : 1;
  plan.tensor_depth = up_to(4) == 0 ? take(2) : 1;
  plan.data = left;
  if (plan.pipeline > 1) {
    plan.schedule = static_cast<ScheduleId>(up_to(3));
    if (plan.schedule == test::kInterleaved) plan.chunks = 2;
  }
  plan.context_kind = static_cast<ContextKind>(up_to(2));
  plan.sequence_parallel = static_cast<SequenceParallel>(up_to(2));
  plan.zero = static_cast<ZeroStage>(up_to(4));
  plan.recompute = static_cast<Recompute>(up_to(3));
  plan.micro_batch = power_of_two(engine, 4);
  if (problem.network->routing) {
    plan.expert = power_of_two(engine, 8);
    plan.expert_tensor = up_to(2) == 0 ? plan.tensor_out : 1;
  }
  const std::int64_t at_once = std::int64_t{1} * plan.data * plan.tensor_depth * plan.micro_batch;
  plan.micro_batches = static_cast<int>(problem.global_batch / at_once);
  return plan;
}

/// Nothing where the draw is not legal or leaves a part of the batch.
inline std::optional<PlanDegrees> random_plan(std::mt19937& engine,
                                              const PlanEvaluator& evaluator) {
  const PlanDegrees plan = any_plan(engine, evaluator.problem());
  if (plan.global_batch() != evaluator.problem().global_batch) return std::nullopt;
  if (evaluator.obstacle(plan)) return std::nullopt;
  return plan;
}

inline std::string describe(const PlanDegrees& plan) {
  const auto field = [](const char* name, int value) {
    return std::string(name) + " " + std::to_string(value) + ", ";
  };
  return field("dp", plan.data) + field("pp", plan.pipeline) + field("vpp", plan.chunks) +
         field("in", plan.tensor_in) + field("out", plan.tensor_out) +
         field("z", plan.tensor_depth) + field("cp", plan.context) +
         field("cp-kind", static_cast<int>(plan.context_kind)) + field("ep", plan.expert) +
         field("etp", plan.expert_tensor) + field("sp", static_cast<int>(plan.sequence_parallel)) +
         field("zero", static_cast<int>(plan.zero)) +
         field("recompute", static_cast<int>(plan.recompute)) +
         field("schedule", static_cast<int>(plan.schedule)) + field("b", plan.micro_batch) +
         field("m", plan.micro_batches);
}

}  // namespace plansearch::test
