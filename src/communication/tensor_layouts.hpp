// SPDX-License-Identifier: Apache-2.0
// How the operators that touch one activation want it and leave it, and what moves it between them.
// The layouts of an operator follow from its own placement alone: choices between placements price
// each pair of them once.
#pragma once

#include <vector>

#include "communication/derive.hpp"
#include "communication/layout_paths.hpp"

namespace plansearch {

/// Of the operator that makes a tensor, or of the edge where it enters the block.
struct MakerLayouts {
  NumberedLayout made;
  NumberedLayout gradient;  ///< as its backward wants it
};

/// Of one operator that reads it.
struct ReaderLayouts {
  NumberedLayout wanted;
  NumberedLayout gradient;  ///< as its backward leaves it
};

struct TensorLayouts {
  const MakerLayouts* maker = nullptr;
  /// In the order of BlockIndex::consumers; null: asked about the others alone.
  std::vector<const ReaderLayouts*> readers;
  /// For the next block, and its gradient from there; null: it does not leave.
  const NumberedLayout* leaving = nullptr;
};

/// `op`: kEdge where the tensor enters the block.
[[nodiscard]] MakerLayouts maker_layouts(const DerivationInput& input, std::size_t op,
                                         TensorId tensor);
[[nodiscard]] ReaderLayouts reader_layouts(const DerivationInput& input, std::size_t op,
                                           TensorId tensor);

/// What brings a tensor to those who read it and its gradient back. Of `input`, placements of
/// operators do not matter: the layouts say all of them. `paths`, if any, knows those with numbers.
void derive_tensor(const DerivationInput& input, DerivationScratch& scratch, TensorId tensor,
                   const TensorLayouts& layouts, LayoutPaths* paths,
                   std::vector<Communication>& demands);

/// What the devices of one operator say to each other while it runs: row statistics, rings.
void derive_inside(const DerivationInput& input, DerivationScratch& scratch, std::size_t op,
                   std::vector<Communication>& demands);

/// Gathers and reductions of the parameters of one operator, each a message of its own.
void derive_own_parameters(const DerivationInput& input, DerivationScratch& scratch, std::size_t op,
                           std::vector<Communication>& demands);

}  // namespace plansearch
