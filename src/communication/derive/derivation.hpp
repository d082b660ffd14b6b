// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of the derivation; not installed.
#pragma once

#include <vector>

#include "communication/derive/derive.hpp"
#include "communication/derive/tensor_layouts.hpp"
#include "communication/redistribution/redistribution.hpp"

namespace plansearch {

struct DerivationScratch {
  RedistributionScratchPtr redistribution;
  std::vector<RedistributionStep> steps;
  Path path;
  Path best;
  std::vector<const NumberedLayout*> available;
  MakerLayouts maker;
  std::vector<ReaderLayouts> readers;
  NumberedLayout leaving;
  TensorLayouts layouts;
  std::vector<char> seen;  ///< by ParameterId
};

[[nodiscard]] DerivationScratchPtr make_derivation_scratch(RedistributionScratchPtr redistribution);

}  // namespace plansearch

namespace plansearch::derivation {

struct Context : DerivationInput {
  DerivationScratch& scratch;

  [[nodiscard]] const DeviceMesh& mesh() const { return rules.mesh; }
  [[nodiscard]] const Operator& op(std::size_t i) const { return block.operators[i]; }
  [[nodiscard]] FixedVector<SliceMap, kMaxTensorRank> slices(std::size_t op_index, TensorId tensor,
                                                             OperatorPhase phase) const {
    return used_slices(block, index.operators[op_index].use(tensor), placement.operators[op_index],
                       phase, rules);
  }
};

using Demands = std::vector<Communication>;
using Slices = FixedVector<SliceMap, kMaxTensorRank>;

/// The part of a tensor on a device when a phase of an operator starts: what the first step uses,
/// or all that its steps use.
[[nodiscard]] Slices start_slices(const Context& context, std::size_t op_index, TensorId tensor,
                                  OperatorPhase phase);
/// The same of a result when the phase is over: where the last step left it, or at home if the
/// parts of a sum were collected on the way (gradients of an operand: where it came from).
[[nodiscard]] Slices end_slices(const Context& context, std::size_t op_index, TensorId tensor,
                                OperatorPhase phase);

/// Positions of an operator's loop nest that a tensor or parameter carries.
template <typename Id>
[[nodiscard]] PositionMask carried_positions(const Context& context, std::size_t op_index, Id id) {
  return context.index.operators[op_index].use(id).carried;
}

/// Axes over which the result of a phase stays partial: spatial axes of the loop dimensions that
/// the result does not carry, less those along which the result itself travels. `stays`: the result
/// does not travel.
[[nodiscard]] AxisSet partial_axes(const Context& context, std::size_t op_index,
                                   OperatorPhase phase, PositionMask carried, bool stays = false);

/// Whether an operator in expert order reads a tensor in token order: it was exchanged with the
/// tokens.
[[nodiscard]] bool crosses_orders(const Context& context, std::size_t op_index, TensorId tensor);

/// An operator that computes from parameters alone hands the parts of its output's gradient on to
/// its parameters over these axes, which are summed over them anyway.
[[nodiscard]] AxisSet deferred_axes(const Context& context, std::size_t op_index);

[[nodiscard]] WireClass wire_class(ElementClass element);

void derive_activations(const Context& context, Demands& demands);
/// Messages between the devices of one operator while it runs.
void derive_inside(const Context& context, std::size_t op, Demands& demands);
void derive_parameters(const Context& context, const TensorPolicies& policies, Demands& demands);

}  // namespace plansearch::derivation
