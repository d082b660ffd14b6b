// SPDX-License-Identifier: Apache-2.0
// The first of a plan's three decisions as people write it: selectors of operators, and how each
// dimension of them is split over devices or into pieces on one device.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plansearch/network.hpp"
#include "plansearch/placement_names.hpp"

namespace plansearch {

/// A dimension, and into how many parts.
struct NamedSplit {
  std::string dimension;
  int parts = 1;
  bool operator==(const NamedSplit&) const = default;
};

/// `of`: "*", "BLOCK", "BLOCK/OPERATOR" or "*/OPERATOR". Operators take those of the dimensions
/// that they have.
struct TransformEntry {
  std::vector<std::string> of{};
  std::vector<LayerRange> layers{};  ///< empty: every layer, and the blocks beside layers
  std::vector<NamedSplit> split{};   ///< over devices
  std::vector<NamedSplit> pieces{};  ///< one after the other on each device
  PieceRecompute recompute = PieceRecompute::Kept;
  bool operator==(const TransformEntry&) const = default;
};

/// What is wrong with an entry.
struct TransformFault {
  std::string message;
  std::string hint;
  std::size_t entry = 0;
};

/// The same as placements, whose factors multiply to the devices that share operators. Dimensions
/// that no operator has both of are split over the same devices.
[[nodiscard]] std::variant<PlacementNames, TransformFault> placements_of(
    const std::vector<TransformEntry>& entries, const Network& network);

}  // namespace plansearch
