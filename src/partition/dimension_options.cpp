// SPDX-License-Identifier: Apache-2.0
// Computes: operators whole, or cut along one feature over a whole tensor group.
// Source: Zheng et al., Alpa (OSDI'22): the choice inside operators, on one axis.
// Assumes: batch and tokens lie by role.
// Units: none.
// Checked by: tests/unit/evaluate/choice_tables_test.cpp
#include "partition/partition_options.hpp"
#include "plan/placements/check_placements.hpp"

namespace plansearch {
namespace {

/// Options of a launch of this operator alone.
std::vector<SequenceOption> options_of(const Network& network, const Operator& op,
                                       const PlacedDegrees& plan) {
  if (check_cuts(network, op, {}, plan)) return {{"by role", {OperatorCut{}}}};
  std::vector<SequenceOption> options{{"whole", {OperatorCut{FactorCuts{}}}}};
  for (const DimId dim : op.loop) {
    if (!is_feature(network.dimension(dim).role)) continue;
    FactorCuts cuts{{dim, FactorList{0}}};
    if (check_cuts(network, op, cuts, plan)) continue;
    options.push_back({network.dimension(dim).name, {OperatorCut{std::move(cuts)}}});
  }
  return options;
}

}  // namespace

std::vector<FusedGroupOptions> dimension_options(const Problem& problem, const PlanDegrees& degrees,
                                                 const Block& block) {
  const std::vector<int> factors = factors_of(PartitionSpace::OneDimension, degrees.tensor_out);
  const PlacedDegrees plan{degrees, *problem.framework, factors};
  std::vector<FusedGroupOptions> launches;
  for (std::vector<std::size_t>& operators : launches_of(block)) {
    FusedGroupOptions& launch =
        launches.emplace_back(FusedGroupOptions{std::move(operators), {{}}});
    for (const std::size_t op : launch.operators) {
      std::vector<SequenceOption> joined;
      for (const SequenceOption& before : launch.options) {
        for (const SequenceOption& own : options_of(*problem.network, block.operators[op], plan)) {
          SequenceOption& option = joined.emplace_back(before);
          option.name += (option.name.empty() ? "" : ", ") + own.name;
          option.operators.push_back(own.operators.front());
        }
      }
      launch.options = std::move(joined);
    }
  }
  return launches;
}

}  // namespace plansearch
