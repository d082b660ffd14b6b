// SPDX-License-Identifier: Apache-2.0
// Tiles that move while an operator runs its steps: the next tile of each tensor on each device. It
// follows from the tiles that steps use in every phase, the start of a phase, and the end of
// results.
#pragma once

#include <vector>

#include "communication/derive/derivation.hpp"

namespace plansearch::derivation {

/// Every device gets a tile from the device that holds it (`sender_of`). The moves of a tensor in
/// one phase follow each other as its steps do.
struct TileMove {
  Subject subject = Subject::Activation;
  std::uint32_t index = 0;
  OperatorPhase phase = OperatorPhase::Forward;
  int step = 0;   ///< the first one after whose product it is needed
  int count = 1;  ///< after so many steps, one after the other
  AxisSet axes;   ///< in which sender and receiver differ
  Slices used;    ///< of the tensor in this phase, by step
  /// Where the last product is followed by one more move: to there. Empty: to what `used` says.
  Slices target;
};

/// A tensor whose first tile is kept beside the one that travels, for a later phase.
struct KeptTile {
  Subject subject = Subject::Activation;
  std::uint32_t index = 0;
  bool operator==(const KeptTile&) const = default;
};

struct OperatorMoves {
  std::vector<TileMove> moves;
  std::vector<KeptTile> kept;

  void clear() {
    moves.clear();
    kept.clear();
  }
};

/// Nothing for an operator of one step.
void find_tile_moves(const Context& context, std::size_t op_index, OperatorMoves& found);

}  // namespace plansearch::derivation
