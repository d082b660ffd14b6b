// SPDX-License-Identifier: Apache-2.0
// The options of the operators of a block on its tensor group, as cuts that a plan may hold: one
// dimension over all devices, or sequences of dimensions and squares over the bits of the group.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// Which options an operator has.
enum class PartitionSpace : std::uint8_t {
  OneDimension,  ///< whole, or one of its features over all devices; blocks hand on by role
  Paper,         ///< PrimePar's sequences: rows of squares are tokens
  /// Rows of squares are tokens or sequences of the batch. Operators on the residual stream may be
  /// replicated behind bits that cut the batch: norms of Megatron, norms around squares.
  All,
  Sorted,  ///< of these, in every tier of the network, one order of the same parts
};

/// How one operator is cut.
struct OperatorCut {
  std::optional<FactorCuts> cuts;  ///< absent: by role
  std::vector<SquareCut> squares{};
  bool operator==(const OperatorCut&) const = default;
};

/// One cut of the operators of a launch.
struct SequenceOption {
  std::string name;                    ///< "N P2x2", "ffn"
  std::vector<OperatorCut> operators;  ///< of the launch, in order
};

/// Operators that are cut together: one, or those of a fused launch.
struct FusedGroupOptions {
  std::vector<std::size_t> operators;
  std::vector<SequenceOption> options;
};

/// Bits of a tensor group; nothing where it is not a power of two.
[[nodiscard]] std::optional<int> bits_of(int tensor);

/// Factors of two, as many as there are bits.
[[nodiscard]] std::vector<int> bit_factors(int bits);

/// The factors of a tensor group that the options of a space cut over: one, or its bits.
[[nodiscard]] std::vector<int> factors_of(PartitionSpace space, int tensor);

/// Dimensions of an operator that are neither tokens nor places of attention.
[[nodiscard]] bool is_feature(DimRole role);

/// Operators that run as one kernel, in order.
[[nodiscard]] std::vector<std::vector<std::size_t>> launches_of(const Block& block);

/// The launches of a block with the cuts that a plan of these degrees may hold; a launch that
/// cannot be cut over all bits has none. Cuts are tried on the plan's own rules.
[[nodiscard]] std::vector<FusedGroupOptions> sequence_options(const Problem& problem,
                                                              const PlanDegrees& degrees,
                                                              const Block& block,
                                                              PartitionSpace space);

/// The same where every operator is whole or cut along one feature, also inside a launch. Operators
/// that no plan may name lie by role.
[[nodiscard]] std::vector<FusedGroupOptions> dimension_options(const Problem& problem,
                                                               const PlanDegrees& degrees,
                                                               const Block& block);

/// The cuts of the tensor that a block hands on: batch, tokens and features over all bits; or by role.
[[nodiscard]] std::vector<std::optional<FactorCuts>> edge_options(const Problem& problem,
                                                                  const PlanDegrees& degrees,
                                                                  const Block& block,
                                                                  PartitionSpace space);

}  // namespace plansearch
