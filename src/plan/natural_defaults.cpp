// SPDX-License-Identifier: Apache-2.0
#include "plan/natural_defaults.hpp"

#include <algorithm>
#include <vector>

#include "plan/legality.hpp"
#include "plansearch/degree_table.hpp"

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
  // One rank has nobody to share with.
  if (plan.data * plan.context == 1) std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

PlanDegrees with_defaults(PlanDegrees plan, const PinnedDegrees& chosen,
                          const Framework& framework) {
  for (const auto& [key, value] : framework.natural_degrees) {
    for (const DegreeRow& row : degree_table()) {
      if (row.key == key && !chosen.has(row.degree)) row.set(plan, value);
    }
  }
  // Without tensor ranks there is nothing to spread the tokens over.
  if (plan.tensor() == 1) plan.sequence_parallel = SequenceParallel::Off;
  return plan;
}

PlanDegrees with_legal_defaults(PlanDegrees plan, const PinnedDegrees& chosen,
                                const Network& network, const Framework& framework,
                                DataType precision) {
  plan = with_defaults(plan, chosen, framework);
  for (const int recompute : candidates(Degree::Recompute, plan, chosen)) {
    for (const int spread : candidates(Degree::SequenceParallel, plan, chosen)) {
      for (const int zero : candidates(Degree::Zero, plan, chosen)) {
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
