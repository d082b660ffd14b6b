// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of the derivation; not installed.
#pragma once

#include <cstdint>
#include <vector>

#include "communication/derive.hpp"

namespace plansearch::derivation {

struct Context {
  const Network& network;
  const Block& block;
  const PlacementRules& rules;
  const BlockPlacement& placement;
  const TensorPolicies& policies;
  const ShardingRules& sharding;

  [[nodiscard]] const DeviceMesh& mesh() const { return rules.mesh; }
  [[nodiscard]] const Operator& op(std::size_t i) const { return block.operators[i]; }
  [[nodiscard]] FixedVector<SliceMap, kMaxTensorRank> slices(std::size_t op_index, TensorId tensor,
                                                             OperatorPhase phase) const {
    return tensor_slices(network, block, op_index, tensor, phase, rules, placement);
  }
};

using Demands = std::vector<Communication>;

/// Loop positions as bits.
using PositionMask = std::uint32_t;
[[nodiscard]] PositionMask carried_positions(const Context& context, std::size_t op_index,
                                             TensorId tensor);
[[nodiscard]] PositionMask carried_positions(const Context& context, std::size_t op_index,
                                             ParameterId parameter);

/// Axes over which the result of a phase stays partial: spatial axes of the loop dimensions that
/// the result does not carry, less those along which the result itself travels.
[[nodiscard]] AxisSet partial_axes(const Context& context, std::size_t op_index,
                                   OperatorPhase phase, PositionMask carried);

/// Whether an operator in expert order reads a tensor in token order: it was exchanged with the
/// tokens.
[[nodiscard]] bool crosses_orders(const Context& context, std::size_t op_index, TensorId tensor);

/// An operator that computes from parameters alone hands the parts of its output's gradient on to
/// its parameters over these axes, which are summed over them anyway.
[[nodiscard]] AxisSet deferred_axes(const Context& context, const Operator& op);

/// Whether tensors of this class have gradients (and are redistributed at all).
[[nodiscard]] bool differentiable(const Tensor& tensor);
[[nodiscard]] bool has_trainable(const Block& block, const Operator& op);
/// Whether the backward of this kind reads the operator's inputs to form input gradients.
[[nodiscard]] bool input_gradient_reads_inputs(OperatorKind kind);
[[nodiscard]] WireClass wire_class(ElementClass element);

void derive_activations(const Context& context, Demands& demands);
void derive_statistics(const Context& context, Demands& demands);
void derive_rings(const Context& context, Demands& demands);
void derive_parameters(const Context& context, Demands& demands);

}  // namespace plansearch::derivation
