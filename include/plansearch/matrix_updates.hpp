// SPDX-License-Identifier: Apache-2.0
// How a framework runs an optimizer whose update needs whole matrices (Muon): data.
#pragma once

#include <cstdint>
#include <vector>

#include "plansearch/framework_rule.hpp"

namespace plansearch {

/// Who updates a matrix of which data-parallel ranks keep states.
enum class UpdateShards : std::uint8_t {
  Replicated,  ///< every rank that holds it
  Whole,       ///< one rank: shards of optimizer states are whole matrices
  Cut,         ///< one rank, to which the pieces of a matrix travel, and back
};

/// The same of a matrix that tensor-parallel ranks hold in slices.
enum class UpdateSlices : std::uint8_t {
  Apart,     ///< each rank its slice, as if it were a matrix
  Gathered,  ///< each rank all of it, gathered before
  Summed,    ///< each rank its slice, products over the cut side summed in every iteration
  Dealt,     ///< one rank, to which the slices travel, and back
};

/// How matrices go to the ranks that update them.
enum class UpdateDeal : std::uint8_t {
  Balanced,  ///< the longest first, each to the rank with least to do
  ByKind,    ///< of every weight of a layer, the same number of layers to each rank
};

/// The matrix that the iteration of Newton and Schulz multiplies.
enum class UpdateIteration : std::uint8_t {
  Direct,  ///< the matrix itself
  Gram,    ///< its Gram matrix, unless it is square
};

struct MatrixUpdates {
  UpdateShards shards = UpdateShards::Replicated;
  UpdateSlices slices = UpdateSlices::Apart;
  UpdateDeal deal = UpdateDeal::Balanced;
  UpdateIteration iteration = UpdateIteration::Direct;
  int iterations = 5;
  bool joined_gate = false;            ///< gate and up projection are one matrix
  std::vector<FrameworkRule> rules{};  ///< that hold besides
  bool operator==(const MatrixUpdates&) const = default;
};

}  // namespace plansearch
