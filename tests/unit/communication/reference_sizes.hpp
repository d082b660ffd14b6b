// SPDX-License-Identifier: Apache-2.0
// Elements on one device, straight from the slices of every dimension: the witness for LocalSizes.
#pragma once

#include <algorithm>

#include "communication/derive/placement.hpp"
#include "plansearch/error.hpp"

namespace plansearch::test {

/// Extent of one loop dimension in one step.
inline double local_extent(DimId dim, std::size_t operator_index, const Block& block,
                           const PlacementRules& rules, const BlockPlacement& placement,
                           OperatorPhase phase = OperatorPhase::Forward) {
  const Operator& op = block.operators[operator_index];
  const auto position =
      static_cast<std::size_t>(std::find(op.loop.begin(), op.loop.end(), dim) - op.loop.begin());
  PLANSEARCH_CHECK(position < op.loop.size());
  const SliceMap& map = placement.operators[operator_index].slices(phase)[position];
  return rules.extents[static_cast<std::size_t>(dim)] / map.slices();
}

/// Points of the loop nest in one step.
inline double local_points(std::size_t operator_index, const Block& block,
                           const PlacementRules& rules, const BlockPlacement& placement,
                           OperatorPhase phase = OperatorPhase::Forward) {
  double points = 1.0;
  for (const DimId dim : block.operators[operator_index].loop) {
    points *= local_extent(dim, operator_index, block, rules, placement, phase);
  }
  return points;
}

/// The slices under which an operator sees the dimensions of one of its tensors.
inline FixedVector<SliceMap, kMaxTensorRank> tensor_slices(
    const Network& network, const Block& block, std::size_t operator_index, TensorId id,
    OperatorPhase phase, const PlacementRules& rules, const BlockPlacement& placement) {
  const Operator& op = block.operators[operator_index];
  const OperatorPlacement& placed = placement.operators[operator_index];
  const std::vector<DimId>& dims = block.tensor(id).dims;
  const auto positions = loop_positions(network, block, operator_index, id);
  FixedVector<SliceMap, kMaxTensorRank> slices;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool grouped_head = network.dimension(dims[i]).role == DimRole::KvHead &&
                              std::find(op.loop.begin(), op.loop.end(), dims[i]) == op.loop.end();
    slices.push_back(positions[i] < 0 || grouped_head
                         ? rules.slice(placed.variant, dims[i])
                         : placed.slices(phase)[static_cast<std::size_t>(positions[i])]);
  }
  return slices;
}

/// Of a tensor as this operator uses it.
inline double local_tensor_elements(const Network& network, const Block& block,
                                    std::size_t operator_index, TensorId tensor,
                                    const PlacementRules& rules, const BlockPlacement& placement) {
  const auto slices = tensor_slices(network, block, operator_index, tensor, OperatorPhase::Forward,
                                    rules, placement);
  const std::vector<DimId>& dims = block.tensor(tensor).dims;
  double count = 1.0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    count *= rules.extents[static_cast<std::size_t>(dims[i])] / slices[i].slices();
  }
  return count;
}

/// Of a parameter in use, before any flat cut.
inline double local_parameter_elements(const Block& block, std::size_t operator_index,
                                       ParameterId parameter, const PlacementRules& rules,
                                       const BlockPlacement& placement) {
  double count = 1.0;
  for (const DimId dim : block.parameter(parameter).dims) {
    count *= local_extent(dim, operator_index, block, rules, placement);
  }
  return count;
}

}  // namespace plansearch::test
