// SPDX-License-Identifier: Apache-2.0
// The first of a plan's three decisions as people write it: selectors of operators, and how each
// dimension of them is split over devices or into pieces on one device.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "plan/placements/selector.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// A dimension, and into how many parts; '*' in its name stands for any letters.
struct NamedSplit {
  std::string dimension;
  int parts = 1;
  std::vector<int> choices{};  ///< in place of one number: a search finds which
  bool operator==(const NamedSplit&) const = default;
};

/// Selected operators take those of the dimensions that they have.
struct TransformEntry {
  Selection what;
  std::vector<NamedSplit> split{};   ///< over devices
  std::vector<NamedSplit> pieces{};  ///< one after the other on each device
  PieceRecompute recompute = PieceRecompute::Kept;
  PinnedDegrees degrees{};  ///< by role; of whole blocks, none of `kPipelineDegrees`
  /// Whether it says how single operators are placed.
  [[nodiscard]] bool places() const { return !split.empty() || !pieces.empty(); }
  bool operator==(const TransformEntry&) const = default;
};

/// Choices left to a search by the entries, one by one, and in words; pieces of 1: not in pieces.
struct TransformAlternative {
  std::vector<TransformEntry> entries;
  std::string words;  ///< "ffn in 4 pieces"; empty where nothing is left open
};
[[nodiscard]] std::variant<std::vector<TransformAlternative>, EntryFault> alternatives_of(
    const std::vector<TransformEntry>& entries);

/// The same as placements, whose factors multiply to the devices that share operators. Dimensions
/// that no operator has both of are split over the same devices.
[[nodiscard]] std::variant<PlacementNames, EntryFault> placements_of(
    const std::vector<TransformEntry>& entries, const Network& network);

/// The degrees of every copy of a block, in the order of the network. A later entry adds to what
/// an earlier one says of a copy, and must not contradict it.
[[nodiscard]] std::variant<std::vector<PinnedDegrees>, EntryFault> degrees_of(
    const std::vector<TransformEntry>& entries, const Network& network);

}  // namespace plansearch
