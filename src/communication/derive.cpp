// SPDX-License-Identifier: Apache-2.0
#include "communication/derive.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "communication/derivation.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace derivation {

PositionMask carried_positions(const Context& context, std::size_t op_index, TensorId tensor) {
  PositionMask mask = 0;
  for (const int position : loop_positions(context.network, context.block, op_index, tensor)) {
    if (position >= 0) mask |= PositionMask{1} << position;
  }
  return mask;
}

PositionMask carried_positions(const Context& context, std::size_t op_index,
                               ParameterId parameter) {
  const std::vector<DimId>& dims = context.block.parameter(parameter).dims;
  const std::vector<DimId>& loop = context.op(op_index).loop;
  PositionMask mask = 0;
  for (std::size_t i = 0; i < loop.size(); ++i) {
    if (std::find(dims.begin(), dims.end(), loop[i]) != dims.end()) mask |= PositionMask{1} << i;
  }
  return mask;
}

AxisSet partial_axes(const Context& context, std::size_t op_index, OperatorPhase phase,
                     PositionMask carried) {
  const std::vector<SliceMap>& slices = context.placement.operators[op_index].slices(phase);
  AxisSet partial;
  AxisSet travelled;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if ((carried >> i & 1U) == 0) {
      partial = partial | slices[i].spatial_axes();
    } else {
      travelled = travelled | slices[i].travelling_axes();
    }
  }
  return partial - travelled;
}

bool crosses_orders(const Context& context, std::size_t op_index, TensorId tensor) {
  const Operator& op = context.op(op_index);
  if (op.kind == OperatorKind::Dispatch || op.kind == OperatorKind::Combine) return false;
  const bool expert_order = std::any_of(op.loop.begin(), op.loop.end(), [&](DimId dim) {
    return context.network.dimension(dim).role == DimRole::Routed;
  });
  return expert_order && carried_positions(context, op_index, tensor) == 0;
}

AxisSet deferred_axes(const Context& context, const Operator& op) {
  const bool from_parameters = std::none_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
    return differentiable(context.block.tensor(id));
  });
  return from_parameters && has_trainable(context.block, op)
             ? context.policies.dense.data | AxisSet{Axis::Depth}
             : AxisSet{};
}

bool differentiable(const Tensor& tensor) {
  return tensor.element == ElementClass::Activation || tensor.element == ElementClass::Logit;
}

bool has_trainable(const Block& block, const Operator& op) {
  return std::any_of(op.parameters.begin(), op.parameters.end(), [&](ParameterId id) {
    return block.parameter(id).trainable == Trainable::Yes;
  });
}

bool input_gradient_reads_inputs(OperatorKind kind) {
  return kind == OperatorKind::Attention || kind == OperatorKind::BatchedMatmul;
}

WireClass wire_class(ElementClass element) {
  switch (element) {
    case ElementClass::Activation:
      return WireClass::Activation;
    case ElementClass::Statistic:
      return WireClass::Statistic;
    case ElementClass::Mask:
      return WireClass::Mask;
    case ElementClass::Index:
      return WireClass::Index;
    case ElementClass::Logit:
      return WireClass::Logit;
  }
  throw InternalError("unknown element class");
}

namespace {

/// Phases in order; forward visits operators upwards, the others downwards.
bool comes_before(const Communication& a, const Communication& b) {
  if (a.phase != b.phase) return a.phase < b.phase;
  if (a.operator_index != b.operator_index) {
    const bool upwards = a.phase == DemandPhase::Forward || a.phase == DemandPhase::Step;
    return upwards == (a.operator_index < b.operator_index);
  }
  return a.side < b.side;
}

}  // namespace
}  // namespace derivation

std::vector<Communication> derive_communication(const Network& network, const Block& block,
                                                const PlacementRules& rules,
                                                const BlockPlacement& placement,
                                                const TensorPolicies& policies,
                                                const ShardingRules& sharding) {
  const derivation::Context context{network, block, rules, placement, policies, sharding};
  std::vector<Communication> demands;
  demands.reserve(32);
  derivation::derive_activations(context, demands);
  derivation::derive_statistics(context, demands);
  derivation::derive_rings(context, demands);
  derivation::derive_parameters(context, demands);
  std::stable_sort(demands.begin(), demands.end(), derivation::comes_before);
  return demands;
}

std::vector<Communication> derive_stage_edge(const Network& network, const Block& block,
                                             const PlacementRules& rules) {
  std::vector<Communication> demands;
  const auto last = static_cast<std::uint32_t>(block.operators.size() - 1);
  for (const TensorId id : block.outputs) {
    const Tensor& tensor = block.tensor(id);
    if (!derivation::differentiable(tensor)) continue;
    const Layout layout = edge_layout(network, block, id, rules);
    double elements = 1.0;
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
      elements *= rules.extents[static_cast<std::size_t>(tensor.dims[i])] / layout.dims[i].slices();
    }
    Communication demand;
    demand.kind = CommunicationKind::SendReceive;
    demand.wire = derivation::wire_class(tensor.element);
    demand.scope = Scope::MicroBatch;
    demand.on_recompute = RecomputeGather::Shared;
    demand.axes = {Axis::Pipeline};
    demand.index = static_cast<std::uint32_t>(id);
    demand.group_size = 2;
    demand.elements = elements;
    demand.operator_index = last;
    demand.side = Side::After;
    demands.push_back(demand);
    demand.subject = Subject::ActivationGradient;
    demand.phase = DemandPhase::InputGradient;
    demand.side = Side::Before;
    demands.push_back(demand);
  }
  return demands;
}

std::vector<Communication> derive_shared_parameters(const Network& network,
                                                    const PlacementRules& rules,
                                                    const StageBlocks& stages,
                                                    const TensorPolicies& policies) {
  struct Place {
    std::set<std::size_t> stages;
    double elements = 0.0;
    std::uint32_t index = 0;
  };
  std::map<std::string, Place> places;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const std::size_t b : stages[stage]) {
      const Block& block = network.blocks[b];
      for (std::size_t p = 0; p < block.parameters.size(); ++p) {
        const Parameter& parameter = block.parameters[p];
        if (parameter.shared_key.empty() || parameter.trainable == Trainable::No) continue;
        Place& place = places[parameter.shared_key];
        place.stages.insert(stage);
        place.index = static_cast<std::uint32_t>(p);
        place.elements = 1.0;
        for (const DimId dim : parameter.dims) {
          place.elements *= rules.extents[static_cast<std::size_t>(dim)] /
                            rules.slice(PlacementVariant::Plain, dim).slices();
        }
      }
    }
  }
  std::vector<Communication> demands;
  for (const auto& [key, place] : places) {
    if (place.stages.size() < 2) continue;
    Communication demand;
    demand.subject = Subject::Gradient;
    demand.kind = CommunicationKind::AllReduce;
    demand.wire = WireClass::Gradient;
    demand.phase = DemandPhase::Step;
    demand.scope = Scope::Step;
    demand.on_recompute = RecomputeGather::Shared;
    demand.axes = {Axis::Pipeline};
    demand.index = place.index;
    demand.group_size = static_cast<int>(place.stages.size());
    demand.elements = place.elements / pieces(policies.dense.gradient.storage, rules.mesh);
    demands.push_back(demand);
  }
  return demands;
}

}  // namespace plansearch
