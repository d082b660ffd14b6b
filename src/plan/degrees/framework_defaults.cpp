// SPDX-License-Identifier: Apache-2.0
#include "plan/degrees/framework_defaults.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "plan/legality/legality.hpp"
#include "plansearch/layer_module.hpp"

namespace plansearch {
namespace {

/// The value of a degree, and what to try where that is illegal.
std::vector<int> candidates(Degree degree, const PlanDegrees& plan, const PinnedDegrees& chosen) {
  const int value = degree_value(plan, degree);
  if (chosen.has(degree)) return {value};
  std::vector<int> values{value};
  if (degree != Degree::Zero) {
    if (value != 0) values.push_back(0);
    return values;
  }
  for (int lower = value - 1; lower >= row_of(degree).low; --lower) values.push_back(lower);
  for (int higher = value + 1; higher <= row_of(degree).high; ++higher) values.push_back(higher);
  // A single rank shares with no other.
  if (plan.data * plan.context == 1) std::ranges::sort(values);
  return values;
}

PinnedDegrees pinned_by(const std::map<std::string, int>& degrees) {
  PinnedDegrees pinned;
  for (const DegreeRow& row : degree_table()) {
    const auto found = degrees.find(std::string(row.key));
    if (found != degrees.end()) pinned.pin(row.degree, found->second);
  }
  return pinned;
}

}  // namespace

PinnedDegrees fixed_degrees(const Framework& framework) {
  return pinned_by(framework.fixed_degrees);
}

PlanDegrees with_defaults(PlanDegrees plan, const PinnedDegrees& chosen,
                          const Framework& framework) {
  const PinnedDegrees usual = pinned_by(framework.natural_degrees);
  const PinnedDegrees fixed = fixed_degrees(framework);
  for (const DegreeRow& row : degree_table()) {
    const auto value = usual.get(row.degree);
    if (value && !chosen.has(row.degree)) row.set(plan, *value);
    if (const auto always = fixed.get(row.degree)) row.set(plan, *always);
  }
  if (plan.temporal == Temporal::Ring && !chosen.has(Degree::SequenceParallel)) {
    plan.sequence_parallel = SequenceParallel::On;
  }
  if (plan.modules != 0 && !chosen.has(Degree::Recompute)) plan.recompute = Recompute::Selective;
  // Activations that leave for the host are those that checkpoints keep: PrimeIntellect-ai/prime-rl@559b4477
  // configs/trainer.py, ac_offloading_requires_ac; torchtune's recipes and DeepSpeed ask for it.
  if (host_tensors(plan.on_host).activations && !chosen.has(Degree::Recompute)) {
    plan.recompute = Recompute::Full;
  }
  // Without tensor ranks there is nothing to spread the tokens over.
  if (plan.tensor() == 1) plan.sequence_parallel = SequenceParallel::Off;
  return plan;
}

int usual_micro_batch(const PlanDegrees& plan, std::int64_t batch, const Framework& framework) {
  const std::int64_t rounds = std::int64_t{plan.data} * plan.tensor_depth * plan.pipeline;
  if (framework.accumulates || batch % rounds != 0) return plan.micro_batch;
  return static_cast<int>(batch / rounds);
}

PlanDegrees with_legal_defaults(PlanDegrees plan, const PinnedDegrees& chosen,
                                const Network& network, const Framework& framework,
                                DataType precision) {
  plan = with_defaults(plan, chosen, framework);
  PinnedDegrees decided = chosen;
  for (const DegreeRow& row : degree_table()) {
    if (const auto always = fixed_degrees(framework).get(row.degree)) {
      decided.pin(row.degree, *always);
    }
  }
  for (const int recompute : candidates(Degree::Recompute, plan, decided)) {
    for (const int spread : candidates(Degree::SequenceParallel, plan, decided)) {
      for (const int zero : candidates(Degree::Zero, plan, decided)) {
        PlanDegrees tried = plan;
        set_degree(tried, Degree::Recompute, recompute);
        set_degree(tried, Degree::SequenceParallel, spread);
        set_degree(tried, Degree::Zero, zero);
        if (!find_obstacle(tried, network, framework, tried.devices(), precision)) return tried;
      }
    }
  }
  return plan;
}

}  // namespace plansearch
