// SPDX-License-Identifier: Apache-2.0
// One thing cut into pieces that run on the same device one after the other.
#pragma once

#include <cstdint>

#include "plansearch/network.hpp"

namespace plansearch {

/// What is cut: the micro-batch cuts the whole graph, over-decomposition a block, co-shard an
/// operator group, a temporal ring one operator.
enum class SplitScope : std::uint8_t { Graph, Block, OperatorGroup, Operator };

/// Interleaved pieces hide each other's communication and are all alive at once; sequential ones
/// are not.
enum class PieceOrder : std::uint8_t { Sequential, Interleaved };

enum class PieceRecompute : std::uint8_t { Keep, Recompute };

struct TemporalSplit {
  SplitScope scope = SplitScope::Graph;
  DimRole dimension = DimRole::Batch;
  int pieces = 1;
  PieceOrder order = PieceOrder::Sequential;
  PieceRecompute recompute = PieceRecompute::Keep;
  bool operator==(const TemporalSplit&) const = default;
};

/// Share of the activations of the split scope that are alive at the peak: pieces that run in
/// sequence and are recomputed one by one leave only one piece alive; all others leave everything.
[[nodiscard]] double live_share(const TemporalSplit& split);
/// Share of the scope's loop extent that one kernel launch sees.
[[nodiscard]] double piece_share(const TemporalSplit& split);

}  // namespace plansearch
