// SPDX-License-Identifier: Apache-2.0
// How single operators are cut, where a plan says so: the tensor group of a position is a product
// of factors, and every operator that is named cuts its dimensions over factors of its own choice.
// All other operators follow the rules by role. Communication follows from the difference.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plansearch/fixed_vector.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Numbers of factors, outermost first; factor 0 is the innermost one.
using FactorList = FixedVector<std::uint8_t, 32>;

/// Factors that may cut one dimension, in addition to the axes that cut it by role: data (with
/// shard groups two) and depth, or context.
inline constexpr std::size_t kMostFactorsOfDimension = 5;

/// A pseudo dimension in the cuts of a linear operator: devices along its factors hold parts that
/// add up to its input, and make parts of its result.
inline constexpr DimId kValue{std::numeric_limits<std::uint32_t>::max()};

/// One dimension, or the value, cut over factors.
struct DimensionCut {
  DimId dim{};
  FactorList factors;
  bool operator==(const DimensionCut&) const = default;
};

/// Every dimension that factors cut; devices hold replicas along factors that are in no list.
using FactorCuts = std::vector<DimensionCut>;

/// A linear operator [m, k] = [m, n] x [n, k] in steps over a square of devices: no collective, no
/// replica, operands travel. Rows and columns have the same number of devices, which is the number
/// of steps. Beside it, dimensions are cut over other factors as ever: in a dimension of both the
/// square stands before the first factor that is further inside than its outermost row.
struct SquareCut {
  FactorList rows;
  FactorList columns;
  DimId m{};
  DimId n{};
  DimId k{};
  bool operator==(const SquareCut&) const = default;
};

/// A linear operator whose rows come or go tile by tile while it works on others: a gather of its
/// input, or the scatter of its sum, as a ring under the product. Beside it, a dimension of the
/// weight is cut over the same factors: contracted, the sums travel, else the input.
struct RingCut {
  FactorList factors;
  DimId rows{};
  bool operator==(const RingCut&) const = default;
};

/// Whether the forward of a piece runs again before its backward: nothing that the piece makes for
/// itself is kept.
enum class PieceRecompute : std::uint8_t { Kept, RunAgain };

/// Operators that a device runs piece by piece: all of them on one piece of its share, then all of
/// them on the next one. Each cuts its own one of `dims`.
struct PieceRegion {
  std::vector<std::size_t> operators;  ///< of one block, ascending
  std::vector<DimId> dims;
  int pieces = 1;
  PieceRecompute recompute = PieceRecompute::Kept;
  [[nodiscard]] bool runs_again() const { return recompute == PieceRecompute::RunAgain; }
  bool operator==(const PieceRegion&) const = default;
};

/// Placements of the operators of one block.
struct BlockChoice {
  std::vector<std::optional<FactorCuts>> operators;  ///< by operator; absent: by role
  std::optional<FactorCuts> entering;  ///< tensors from the block before; absent: by role
  std::optional<FactorCuts> leaving;   ///< tensors for the block behind
  /// Squares by operator, for operators that are named above; empty: none runs in steps. Squares of
  /// one operator nest, the outermost first: the last one turns with every step.
  std::vector<std::vector<SquareCut>> squares;
  [[nodiscard]] std::span<const SquareCut> squares_of(std::size_t op) const {
    return op < squares.size() ? std::span(squares[op]) : std::span<const SquareCut>();
  }
  /// Rings by operator, as `squares`; an operator has one or the other.
  std::vector<std::optional<RingCut>> rings;
  [[nodiscard]] const RingCut* ring(std::size_t op) const {
    return op < rings.size() && rings[op] ? &*rings[op] : nullptr;
  }
  std::vector<PieceRegion> regions{};  ///< no operator is of two
  [[nodiscard]] bool by_role() const;
  bool operator==(const BlockChoice&) const = default;
};

/// Placements of single operators in a plan. Layers of one block that are cut differently are
/// blocks of their own (`distinguish_layers`).
struct Placements {
  std::vector<int> factors;         ///< sizes, innermost first; they multiply to the tensor group
  std::vector<BlockChoice> blocks;  ///< by index into Network::blocks
  [[nodiscard]] bool over_squares() const;  ///< whether an operator runs over a square
  [[nodiscard]] bool over_rings() const;    ///< whether rows of an operator travel
  [[nodiscard]] bool in_pieces() const;     ///< whether operators run piece by piece
  [[nodiscard]] bool by_role() const;       ///< whether no cut over devices is its own
  bool operator==(const Placements&) const = default;
};

/// One copy of a block on its way through the network.
struct LayerChoice {
  std::size_t block = 0;  ///< index into Network::blocks
  BlockChoice choice;     ///< `entering` follows from the copy in front
};

/// A network with one block for every distinct cut of its layers, and those cuts.
struct DistinguishedNetwork {
  std::shared_ptr<const Network> network;
  Placements placements;
};

/// `layers`: all copies of all blocks in the order of the network. Equal copies share a block. A
/// copy whose input comes with another cut is a kind of its own: the resharding is charged to it.
[[nodiscard]] DistinguishedNetwork distinguish_layers(const Network& network,
                                                      std::vector<int> factors,
                                                      std::vector<LayerChoice> layers);

/// The same with factors that always cut together, one inside the other, as one.
[[nodiscard]] Placements with_merged_factors(const Placements& placements);

}  // namespace plansearch
