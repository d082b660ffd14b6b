// SPDX-License-Identifier: Apache-2.0
// Computes: cuts, operator messages, local parameters, parameter gathers and gradient reductions of
//           every block of a network.
// Source: communication/derive/derive.hpp; tensor policies
// (communication/derive/tensor_policy.hpp):
//         ZeRO, FSDP and z axes are settings.
// Assumes: a micro-batch of m sequences sends m times what one sequence sends; what is due at the
//          end of a step waits for the other blocks of its stage.
// Units: elements, bytes, seconds.
// Checked by: tests/unit/communication/micro_batch_test.cpp,
//             tests/unit/evaluate/block_profile_test.cpp, step_model_test.cpp
#include "evaluate/block/placed_network.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "plan/primitives/recompute.hpp"

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
void count_parameters(const PricingContext& context, const Block& block, const BlockIndex& index,
                      const LocalSizes& sizes, const PlacementRules& rules, PlacedBlock& placed) {
  const Network& network = *context.problem.network;
  const Framework& framework = *context.problem.framework;
  const MatrixUpdates* updates = matrix_updates(framework);
  const int depth = rules.mesh[Axis::Depth].size;
  double launch = 0.0;
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    for (const ParameterId id : block.operators[i].parameters) {
      const Parameter& parameter = block.parameter(id);
      const bool cut = depth_cuts(network, block, block.operators[i], id, framework.sharding);
      const double elements = sizes.parameter(i, id) * (cut ? 1 : depth);
      if (cut && depth > 1) add_gathered(block, i, elements, placed.gathered, launch);
      const bool expert = has_expert_dimension(network, parameter);
      ParameterCount& count = count_for(placed, parameter);
      (expert ? count.expert : count.dense) += elements;
      if (parameter.trainable == Trainable::Yes) {
        (expert ? count.trainable_expert : count.trainable_dense) += elements;
        if (updates == nullptr) continue;
        if (const auto matrix = matrix_dims(network, block, block.operators[i], id, *updates)) {
          placed.updates.push_back(
              matrix_update(context, block, index, i, id, *matrix, sizes, rules.extents, *updates));
        } else {
          (expert ? count.other_expert : count.other_dense) += elements;
        }
      } else {
        const DataType kept =
            frozen_format(network, block, block.operators[i], id, context.precision);
        (expert ? count.frozen_expert : count.frozen_dense) +=
            elements * element_size(kept).value();
      }
    }
  }
}

PlacedPieces place_pieces(const Block& block, const BlockIndex& index, const BlockChoice& choice,
                          std::span<const double> extents, const SelectiveRecompute& selective,
                          const BlockCuts& cuts) {
  PlacedPieces pieces{choice.regions, cut_pieces(block, index, choice, extents, cuts), {}};
  for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
    pieces.repeated[level] = repeated_shares(block, static_cast<Recompute>(level), selective);
    repeat_pieces(choice.regions, pieces.repeated[level]);
  }
  return pieces;
}

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

void keep(const PricingContext& context, const DeviceMesh& mesh, const Block& block,
          const std::vector<Communication>& demands, KeptBlock& kept) {
  for (const Communication& demand : demands) {
    if (demand.scope == Scope::Step || demand.phase == DemandPhase::Step) {
      kept.steps.push_back(at_step_end(context, mesh, demand, shared_key(block, demand)));
    } else {
      kept.passes.push_back(price_message(context, mesh, demand, demand.elements));
    }
  }
}

/// The bytes of parameters that a rank keeps under a policy.
Bytes kept_bytes(const ParameterPolicy& policy, double trained, double frozen) {
  const Bytes whole = element_size(*policy.parameter.dtype) * trained + Bytes(frozen);
  return whole / static_cast<double>(policy.parameter.pieces);
}

FetchedBytes fetched_bytes(const PlacedBlock& block, const TensorPolicies& policies) {
  const TensorPolicy& parameter = policies.dense.parameter;
  if (!parameter.on_host || parameter.gather == Scope::Step) return {};
  ParameterCount count = block.parameters;
  for (const SharedCount& shared : block.shared) count += shared.count;
  const Bytes bytes = kept_bytes(policies.dense, count.trainable_dense, count.frozen_dense) +
                      kept_bytes(policies.expert, count.trainable_expert, count.frozen_expert);
  return {bytes, parameter.gather == Scope::Use ? bytes : Bytes(0)};
}

}  // namespace

ParameterCount& ParameterCount::operator+=(const ParameterCount& other) {
  dense += other.dense;
  expert += other.expert;
  trainable_dense += other.trainable_dense;
  trainable_expert += other.trainable_expert;
  frozen_dense += other.frozen_dense;
  frozen_expert += other.frozen_expert;
  other_dense += other.other_dense;
  other_expert += other.other_expert;
  return *this;
}

ParameterCount operator*(ParameterCount count, double copies) {
  return {count.dense * copies,           count.expert * copies,
          count.trainable_dense * copies, count.trainable_expert * copies,
          count.frozen_dense * copies,    count.frozen_expert * copies,
          count.other_dense * copies,     count.other_expert * copies};
}

PlacedBlocks place_blocks(const PricingContext& context, const NetworkIndex& index,
                          const PlanDegrees& plan, const DeviceMesh& mesh,
                          const Placements* placements) {
  thread_local DerivationBuffers scratch;
  const Network& network = *context.problem.network;
  const Framework& framework = *context.problem.framework;
  const LinkRates rates(context, mesh);
  PlacedBlocks result{plan, mesh, std::vector<PlacedBlock>(network.blocks.size())};
  result.plan.micro_batch = 1;
  const PlacementRules rules = placement_rules(network, result.plan, mesh, framework, placements);
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    const Block& block = network.blocks[b];
    PlacedBlock& placed = result.blocks[b];
    place_block(block, index[b], rules, scratch.placement, b);
    placed.cuts = cut_block(network, block, index[b], rules, scratch.placement);
    if (placements != nullptr && !placements->blocks[b].regions.empty()) {
      placed.pieces = place_pieces(block, index[b], placements->blocks[b], rules.extents,
                                   framework.selective, placed.cuts);
    }
    scratch.demands.clear();
    derive_operator_communication(
        {network, block, index[b], rules, scratch.placement, framework.sharding,
         dispatcher_of(framework, plan.dispatcher).path,
         placements == nullptr ? nullptr : rates.of_paths()},
        *scratch.derivation, scratch.demands);
    placed.messages.reserve(scratch.demands.size());
    for (const Communication& demand : scratch.demands) {
      placed.messages.push_back({demand, grows_with_micro_batch(network, block, demand)});
    }
    const LocalSizes sizes(block, index[b], placed.cuts, rules.extents);
    count_parameters(context, block, index[b], sizes, rules, placed);
  }
  return result;
}

ShardedStates keep_states(const PricingContext& context, const NetworkIndex& index,
                          std::shared_ptr<const PlacedNetwork> placed, const PlacementRules& rules,
                          const TensorPolicies& policies) {
  thread_local DerivationBuffers scratch;
  const Network& network = *context.problem.network;
  ShardedStates states{std::move(placed), {}, {}};
  StageBlocks stages;
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    const Block& block = network.blocks[b];
    KeptBlock& kept = states.blocks.emplace_back();
    kept.fetched = fetched_bytes(states.placed->blocks()[b], policies);
    place_block(block, index[b], rules, scratch.placement, b);
    scratch.demands.clear();
    derive_parameter_communication(
        {network, block, index[b], rules, scratch.placement, context.problem.framework->sharding},
        policies, *scratch.derivation, scratch.demands);
    keep(context, rules.mesh, block, scratch.demands, kept);
    // Every block taken as a stage of its own: what would have to be reduced between them.
    if (!states.placed->blocks()[b].shared.empty()) stages.push_back({b});
  }
  for (const SharedGradient& shared : derive_shared_parameters(network, rules, stages, policies)) {
    states.shared.push_back(at_step_end(context, rules.mesh, shared.communication, shared.key));
  }
  return states;
}

}  // namespace plansearch
