// SPDX-License-Identifier: Apache-2.0
// How the operators that touch one activation want it and leave it, and what moves it between them.
// The layouts of an operator follow from its own placement alone: choices between placements price
// each pair of them once.
#pragma once

#include <vector>

#include "communication/derive/derive.hpp"
#include "communication/redistribution/redistribution.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {

/// The layouts of the operator that makes a tensor, or of the edge where it enters the block.
struct MakerLayouts {
  NumberedLayout made;
  NumberedLayout gradient;  ///< as its backward wants it
};

/// The layouts of one operator that reads the tensor.
struct ReaderLayouts {
  NumberedLayout wanted;
  /// As its backward leaves it, without the parts that the maker hands on to its parameters.
  NumberedLayout gradient;
};

struct TensorLayouts {
  const MakerLayouts* maker = nullptr;
  std::vector<const ReaderLayouts*> readers;  ///< in the order of BlockIndex::consumers
  /// For the next block, and its gradient from there; null: it does not leave.
  const NumberedLayout* leaving = nullptr;
};

/// `op`: kEdge where the tensor enters the block.
[[nodiscard]] MakerLayouts maker_layouts(const DerivationInput& input, std::size_t op,
                                         TensorId tensor);
[[nodiscard]] ReaderLayouts reader_layouts(const DerivationInput& input, std::size_t op,
                                           TensorId tensor);

/// A tensor that exists in several layouts comes from the nearest one, of equals from the first: by
/// elements that a device sends, at their rates.
[[nodiscard]] double length_of(const Path& path);

[[nodiscard]] ReadsAgain reads_again(const Block& block, const BlockIndex& index, std::size_t op);
/// The steps that such a reader repeats; `held`: elements before the first one.
[[nodiscard]] std::span<const PathStep> steps_again(ReadsAgain reader, double held,
                                                    const Path& path);

/// Messages between the devices of one operator while it runs: row statistics, rings.
void derive_inside(const DerivationInput& input, DerivationScratch& scratch, std::size_t op,
                   std::vector<Communication>& demands);

/// Gathers and reductions of the parameters of one operator, each a message of its own.
void derive_own_parameters(const DerivationInput& input, const TensorPolicies& policies,
                           DerivationScratch& scratch, std::size_t op,
                           std::vector<Communication>& demands);

}  // namespace plansearch
