// SPDX-License-Identifier: Apache-2.0
// How large everything is on one device: extents over the number of slices. Placements know which
// device holds what; sizes only need to know into how many pieces a dimension is cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "communication/derive/placement.hpp"
#include "communication/slices/block_index.hpp"

namespace plansearch {

/// Into how many slices one placement cuts every dimension of every loop nest, of every tensor as
/// its operators use it, and of what enters and leaves the block.
struct BlockCuts {
  std::vector<std::int32_t> slices;  ///< numbered by BlockIndex
  std::vector<std::int32_t> steps;   ///< of every operator
};
[[nodiscard]] BlockCuts cut_block(const Network& network, const Block& block,
                                  const BlockIndex& index, const PlacementRules& rules,
                                  const BlockPlacement& placement);

/// The same for the kernels of operators that run piece by piece: tensors and loop nests of a
/// piece, every piece a step. `choice` has regions.
[[nodiscard]] BlockCuts cut_pieces(const Block& block, const BlockIndex& index,
                                   const BlockChoice& choice, std::span<const double> extents,
                                   BlockCuts cuts);

/// Extents of the dimensions of a network for one micro-batch of the whole machine, by DimId.
void placed_extents(const Network& network, const PlanDegrees& plan, const Framework& framework,
                    std::vector<double>& extents);

/// Elements on one device. Not rounded: uneven shards average out.
class LocalSizes {
 public:
  LocalSizes(const Block& block, const BlockIndex& index, const BlockCuts& cuts,
             std::span<const double> extents)
      : block_(block), index_(index), cuts_(cuts), extents_(extents) {}

  /// Extent of one dimension of an operator's loop nest, in one step.
  [[nodiscard]] double loop(std::size_t op, std::size_t position) const;
  [[nodiscard]] int steps(std::size_t op) const { return cuts_.steps[op]; }
  /// Elements of a tensor as an operator reads or writes it.
  [[nodiscard]] double tensor(std::size_t op, TensorId id) const;
  /// Elements of a tensor as the neighbours of the block know it.
  [[nodiscard]] double edge(TensorId id) const;
  /// Elements of a parameter in use, before any flat cut.
  [[nodiscard]] double parameter(std::size_t op, ParameterId id) const;

 private:
  [[nodiscard]] double product(const std::vector<DimId>& dims, std::uint32_t first_cut) const;

  const Block& block_;
  const BlockIndex& index_;
  const BlockCuts& cuts_;
  std::span<const double> extents_;
};

}  // namespace plansearch
