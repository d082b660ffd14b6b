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
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/fixed_vector.hpp"
#include "plansearch/framework.hpp"
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

// Placements of single operators in the words of people: operators, blocks and dimensions by name,
// layers by number; plan files and answers hold these.

/// Layers first to last, both counted; the first layer of a network is 0.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const LayerRange&) const = default;
};

/// The value in cuts and splits, in place of a dimension.
inline constexpr std::string_view kValueWord = "value";
/// Whether a name is that word, and no dimension of the network.
[[nodiscard]] bool means_value(const std::string& name, const Network& network);

/// Numbers of factors, outermost first; absent: all of them.
struct NamedCut {
  std::string dimension;
  std::optional<FactorList> factors;
  bool operator==(const NamedCut&) const = default;
};

/// A square of devices and the dimensions of a product, by name.
struct NamedSquare {
  FactorList rows;
  FactorList columns;
  std::string m;
  std::string n;
  std::string k;
  bool operator==(const NamedSquare&) const = default;
};

/// A ring under a product, by name.
struct NamedRing {
  FactorList factors;
  std::string rows;
  bool operator==(const NamedRing&) const = default;
};

/// Some operators, or the edges of some layers, and how they are cut.
struct PlacementEntry {
  std::vector<std::string> operators;  ///< empty: every operator that no other entry names
  std::vector<std::string> blocks;     ///< empty: every block
  std::vector<LayerRange> layers;      ///< empty: every layer, and the blocks beside layers
  std::vector<NamedCut> cut;
  std::vector<NamedSquare> squares{};  ///< operators in steps; the outermost first
  std::optional<NamedRing> ring{};
  bool operator==(const PlacementEntry&) const = default;
};

/// Operators that run piece by piece, and the dimensions that are cut so: each cuts its own one.
struct PieceEntry {
  std::vector<std::string> operators;  ///< empty: every one that has such a dimension
  std::vector<std::string> blocks;     ///< empty: every block
  std::vector<LayerRange> layers;      ///< empty: every layer, and the blocks beside layers
  std::vector<std::string> dimensions;
  int pieces = 1;
  PieceRecompute recompute = PieceRecompute::Kept;
  bool operator==(const PieceEntry&) const = default;
};

struct PlacementNames {
  std::vector<int> factors;  ///< sizes, innermost first; empty: prime factors of the tensor degree
  std::vector<PlacementEntry> operators;
  std::vector<PlacementEntry> edges;  ///< what the layers hand on; their `operators` are empty
  std::vector<PieceEntry> regions{};
  bool operator==(const PlacementNames&) const = default;
};

/// The lists of PlacementNames.
enum class PlacementList : std::uint8_t { Operators, Edges, Regions };

/// An entry of a placement list that cannot hold, and the reason.
struct PlacementFault {
  std::string message;
  std::string hint;
  PlacementList list = PlacementList::Operators;
  std::optional<std::size_t> entry{};
};

/// The placements, and the network with one block for every distinct cut of its layers.
[[nodiscard]] std::variant<DistinguishedNetwork, PlacementFault> resolve_placements(
    const PlacementNames& names, const Network& network, const PlanDegrees& degrees,
    const Framework& framework);

/// The words of placements that were made for `network`; `resolve_placements` on the network they
/// were resolved on leads back to them.
[[nodiscard]] PlacementNames names_of(const Placements& placements, const Network& network);

/// Prime factors, ascending: 12 is 2 x 2 x 3.
[[nodiscard]] std::vector<int> prime_factors(int number);

/// "ffn over t2 t1 t0 (8)"; "whole" where nothing is cut.
[[nodiscard]] std::string cut_text(const std::vector<NamedCut>& cut,
                                   const std::vector<int>& factors);
/// "2 steps over a square (t1 by t0) of sequence, hidden, ffn".
[[nodiscard]] std::string square_text(const NamedSquare& square, const std::vector<int>& factors);
/// "8 steps: tiles of sequence travel over t0".
[[nodiscard]] std::string ring_text(const NamedRing& ring, const std::vector<int>& factors);
/// "4 pieces of head, run again".
[[nodiscard]] std::string pieces_text(const PieceEntry& entry);
/// "0-11, 20".
[[nodiscard]] std::string layers_text(const std::vector<LayerRange>& layers);

/// The name of a block before layers of it were distinguished: "decoder" for "decoder@12".
[[nodiscard]] std::string plain_block_name(const std::string& name);

}  // namespace plansearch
