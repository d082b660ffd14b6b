// SPDX-License-Identifier: Apache-2.0
// Computes: parameter gathers and gradient reductions of every block of a network.
// Source: tensor policies (communication/derive/tensor_policy.hpp): ZeRO, FSDP and z axes are
//         settings.
// Assumes: what is due at the end of a step waits for the other blocks of its stage.
// Units: elements, bytes, seconds.
// Checked by: tests/unit/evaluate/block_profile_test.cpp, step_model_test.cpp
#include "evaluate/states/sharded_states.hpp"

#include <string_view>
#include <utility>

namespace plansearch {
namespace {

std::string_view shared_key(const Block& block, const Communication& demand) {
  if (demand.index == kWholeBlock) return {};
  return block.parameters[demand.index].shared_key;
}

StepMessage at_step_end(const PricingContext& context, const DeviceMesh& mesh,
                        const Communication& demand, std::string_view key) {
  StepMessage message{demand, {}, key};
  message.communication.elements = demand.elements * mesh.size(demand.cut);
  message.tiles = wire_size(demand.wire, context.precision) * message.communication.elements;
  return message;
}

KeptBlock keep(const PricingContext& context, const DeviceMesh& mesh, const Block& block,
               const std::vector<Communication>& demands) {
  KeptBlock kept;
  for (const Communication& demand : demands) {
    if (demand.scope == Scope::Step || demand.phase == DemandPhase::Step) {
      kept.steps.push_back(at_step_end(context, mesh, demand, shared_key(block, demand)));
    } else {
      kept.passes.push_back(price_message(context, mesh, demand, demand.elements));
    }
  }
  return kept;
}

/// What a rank keeps of the parameters under a policy.
Bytes kept_bytes(const ParameterPolicy& policy, const DeviceMesh& mesh, double trained,
                 double frozen) {
  const Bytes whole = element_size(*policy.parameter.dtype) * trained + Bytes(frozen);
  return whole / static_cast<double>(pieces(policy.parameter.storage, mesh));
}

FetchedBytes fetched_bytes(const PlacedBlock& block, const TensorPolicies& policies,
                           const DeviceMesh& mesh) {
  const TensorPolicy& parameter = policies.dense.parameter;
  if (!parameter.on_host || parameter.gather == Scope::Step) return {};
  ParameterCount count = block.parameters;
  for (const SharedCount& shared : block.shared) count += shared.count;
  const Bytes bytes =
      kept_bytes(policies.dense, mesh, count.trainable_dense, count.frozen_dense) +
      kept_bytes(policies.expert, mesh, count.trainable_expert, count.frozen_expert);
  return {bytes, parameter.gather == Scope::Use ? bytes : Bytes(0)};
}

}  // namespace

ShardedStates keep_states(const PricingContext& context, const NetworkIndex& index,
                          std::shared_ptr<const PlacedNetwork> placed, const PlanDegrees& plan,
                          const DeviceMesh& mesh, const Placements* placements) {
  thread_local DerivationBuffers scratch;
  const Network& network = *context.problem.network;
  const Framework& framework = *context.problem.framework;
  const PlacementRules rules = placement_rules(network, plan, mesh, framework, placements);
  const TensorPolicies policies = tensor_policies(plan, mesh, framework, context.problem.precision);
  ShardedStates states{std::move(placed), {}, {}};
  StageBlocks stages;
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    const Block& block = network.blocks[b];
    place_block(block, index[b], rules, scratch.placement, b);
    scratch.demands.clear();
    derive_parameter_communication(
        {network, block, index[b], rules, scratch.placement, policies, framework.sharding},
        *scratch.derivation, scratch.demands);
    states.blocks.push_back(keep(context, mesh, block, scratch.demands));
    states.blocks.back().fetched = fetched_bytes(states.placed->blocks()[b], policies, mesh);
    // Every block taken as a stage of its own: what would have to be reduced between them.
    if (!states.placed->blocks()[b].shared.empty()) stages.push_back({b});
  }
  for (const SharedGradient& shared : derive_shared_parameters(network, rules, stages, policies)) {
    states.shared.push_back(at_step_end(context, mesh, shared.communication, shared.key));
  }
  return states;
}

}  // namespace plansearch
