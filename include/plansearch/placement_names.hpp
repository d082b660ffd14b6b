// SPDX-License-Identifier: Apache-2.0
// Placements of single operators in the words of people: operators, blocks and dimensions by name,
// layers by number; plan files and answers hold these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

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
