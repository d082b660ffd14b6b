// SPDX-License-Identifier: Apache-2.0
// The ways to cut the operators of a block over the bits of its tensor group: sequences of
// dimensions and squares, as cuts that a plan may hold.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// Which sequences are looked at.
enum class SequenceSpace : std::uint8_t {
  Paper,  ///< PrimePar's: rows of squares are tokens
  /// Rows of squares are tokens or sequences of the batch. What carries the residual stream may be
  /// replicated behind bits that cut the batch: norms of Megatron, norms around squares.
  All,
  Sorted,  ///< of these, in every tier of the network, one order of the same parts
};

/// How one operator is cut.
struct OperatorCut {
  FactorCuts cuts;
  std::vector<SquareCut> squares;
  bool operator==(const OperatorCut&) const = default;
};

/// One way to cut the operators of a launch.
struct SequenceOption {
  std::string name;                    ///< "N P2x2"
  std::vector<OperatorCut> operators;  ///< of the launch, in order
};

/// Operators that are cut together: one, or those of a fused launch.
struct LaunchOptions {
  std::vector<std::size_t> operators;
  std::vector<SequenceOption> options;
};

/// Bits of a tensor group; nothing where it is no power of two.
[[nodiscard]] std::optional<int> bits_of(int tensor);

/// Factors of two, as many as there are bits.
[[nodiscard]] std::vector<int> bit_factors(int bits);

/// The launches of a block with the cuts that a plan of these degrees may hold; a launch that
/// cannot be cut over all bits has none. Cuts are tried on the plan's own rules.
[[nodiscard]] std::vector<LaunchOptions> sequence_options(const Problem& problem,
                                                          const PlanDegrees& degrees,
                                                          const Block& block, SequenceSpace space);

/// The ways to cut what a block hands on: batch, tokens and features over all bits.
[[nodiscard]] std::vector<FactorCuts> edge_options(const Problem& problem,
                                                   const PlanDegrees& degrees, const Block& block,
                                                   SequenceSpace space);

}  // namespace plansearch
