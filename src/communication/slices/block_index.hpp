// SPDX-License-Identifier: Apache-2.0
// Look-ups in a block that derivation and sizes repeat and no plan changes: the place of a tensor's
// dimensions in the loop nest of the operators that touch it, its producer and its readers. Built
// once per network.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "communication/slices/layout.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Positions of a loop nest as bits.
using PositionMask = std::uint32_t;

/// No operator of the block: the neighbour at its edge.
inline constexpr std::size_t kEdge = std::numeric_limits<std::size_t>::max();

/// How one operator reads or writes the dimensions of one tensor.
struct TensorUse {
  TensorId tensor{};
  /// Positions in the loop nest; -1 for a dimension the nest does not have.
  FixedVector<std::int8_t, kMaxTensorRank> positions;
  /// Dimensions, as bits, that lie as their own rule says and not as the nest does: heads of keys
  /// and values that are grouped under query heads.
  PositionMask grouped = 0;
  PositionMask carried = 0;     ///< positions of the nest that the tensor carries
  std::uint32_t first_cut = 0;  ///< of its dimensions in BlockCuts
};

struct ParameterUse {
  ParameterId parameter{};
  FixedVector<std::int8_t, kMaxTensorRank> positions;
  PositionMask carried = 0;
};

struct OperatorIndex {
  std::vector<TensorUse> uses;  ///< inputs, outputs, and what is saved besides
  std::vector<ParameterUse> parameters;
  std::uint32_t first_cut = 0;   ///< of its loop in BlockCuts
  PositionMask all = 0;          ///< every position of the loop nest
  bool exchanges = false;        ///< between token order and expert order
  bool attends = false;          ///< loops over KeySequence
  bool expert_order = false;     ///< loops over Expert or Routed
  bool routed = false;           ///< loops over Routed
  bool trains = false;           ///< has a trainable parameter
  bool trains_weight = false;    ///< has a trainable weight: its first parameter
  bool from_parameters = false;  ///< reads no tensor that has a gradient

  [[nodiscard]] const TensorUse& use(TensorId tensor) const;
  [[nodiscard]] const ParameterUse& use(ParameterId parameter) const;
};

struct BlockIndex {
  std::vector<OperatorIndex> operators;
  std::vector<std::size_t> producers;               ///< by TensorId; kEdge: enters the block
  std::vector<std::vector<std::size_t>> consumers;  ///< by TensorId, in order
  std::vector<bool> leaves;                         ///< by TensorId: read by other blocks
  std::vector<bool> handed_on;          ///< by output: read by the next copy along the chain
  std::vector<std::uint32_t> edge_cut;  ///< by TensorId: first cut of its layout at the edge
  std::size_t cuts = 0;                 ///< size of BlockCuts
};

[[nodiscard]] BlockIndex index_block(const Network& network, const Block& block);

/// One index per block of the network.
using NetworkIndex = std::vector<BlockIndex>;
[[nodiscard]] NetworkIndex index_network(const Network& network);

}  // namespace plansearch
