// SPDX-License-Identifier: Apache-2.0
// Computes: cuts, operator messages and local parameters of every block of a network.
// Source: communication/derive/derive.hpp.
// Assumes: a micro-batch of m sequences sends m times what one sequence sends.
// Units: elements.
// Checked by: tests/unit/communication/micro_batch_test.cpp,
// tests/unit/evaluate/block_profile_test.cpp
#include "evaluate/block/placed_network.hpp"

#include <algorithm>

namespace plansearch {
namespace {

bool has_expert_dimension(const Network& network, const Parameter& parameter) {
  return std::any_of(parameter.dims.begin(), parameter.dims.end(),
                     [&](DimId dim) { return network.dimension(dim).role == DimRole::Expert; });
}

/// A parameter that several blocks use is counted once per device.
ParameterCount& count_for(PlacedBlock& placed, const Parameter& parameter) {
  if (parameter.shared_key.empty()) return placed.parameters;
  for (SharedCount& shared : placed.shared) {
    if (shared.key == parameter.shared_key) return shared.count;
  }
  placed.shared.push_back({parameter.shared_key, {}});
  return placed.shared.back().count;
}

/// `launch`: elements of the launch at hand.
void add_gathered(const Block& block, std::size_t i, double elements, GatheredElements& gathered,
                  double& launch) {
  const std::string& key = block.operators[i].fused_key;
  const bool joins = i > 0 && !key.empty() && key == block.operators[i - 1].fused_key;
  launch = joins ? launch + elements : elements;
  gathered.all += elements;
  gathered.largest = std::max(gathered.largest, launch);
}

/// Policies cut what is counted over depth; a parameter that depth holds copies of counts for all.
void count_parameters(const Network& network, const Block& block, const LocalSizes& sizes,
                      const ShardingRules& rules, int depth, PlacedBlock& placed) {
  double launch = 0.0;
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    for (const ParameterId id : block.operators[i].parameters) {
      const Parameter& parameter = block.parameter(id);
      const bool cut = depth_cuts(network, block, block.operators[i], id, rules);
      const double elements = sizes.parameter(i, id) * (cut ? 1 : depth);
      if (cut && depth > 1) add_gathered(block, i, elements, placed.gathered, launch);
      const bool expert = has_expert_dimension(network, parameter);
      ParameterCount& count = count_for(placed, parameter);
      (expert ? count.expert : count.dense) += elements;
      if (parameter.trainable == Trainable::Yes) {
        (expert ? count.trainable_expert : count.trainable_dense) += elements;
      }
    }
  }
}

}  // namespace

ParameterCount& ParameterCount::operator+=(const ParameterCount& other) {
  dense += other.dense;
  expert += other.expert;
  trainable_dense += other.trainable_dense;
  trainable_expert += other.trainable_expert;
  return *this;
}

ParameterCount operator*(ParameterCount count, double copies) {
  return {count.dense * copies, count.expert * copies, count.trainable_dense * copies,
          count.trainable_expert * copies};
}

PlacedNetwork place_network(const Problem& problem, const NetworkIndex& index,
                            const PlanDegrees& plan, const DeviceMesh& mesh,
                            const Placements* placements) {
  thread_local DerivationBuffers scratch;
  const Network& network = *problem.network;
  const Framework& framework = *problem.framework;
  PlacedNetwork result{plan, mesh, std::vector<PlacedBlock>(network.blocks.size())};
  result.plan.micro_batch = 1;
  const PlacementRules rules = placement_rules(network, result.plan, mesh, framework, placements);
  const TensorPolicies policies = tensor_policies(plan, mesh, framework, problem.precision);
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    const Block& block = network.blocks[b];
    PlacedBlock& placed = result.blocks[b];
    place_block(block, index[b], rules, scratch.placement, b);
    placed.cuts = cut_block(network, block, index[b], rules, scratch.placement);
    scratch.demands.clear();
    derive_operator_communication(
        {network, block, index[b], rules, scratch.placement, policies, framework.sharding,
         dispatcher_of(framework, plan.dispatcher).path},
        *scratch.derivation, scratch.demands);
    placed.messages.reserve(scratch.demands.size());
    for (const Communication& demand : scratch.demands) {
      placed.messages.push_back({demand, grows_with_micro_batch(network, block, demand)});
    }
    count_parameters(network, block, LocalSizes(block, index[b], placed.cuts, rules.extents),
                     framework.sharding, mesh[Axis::Depth].size, placed);
  }
  return result;
}

}  // namespace plansearch
