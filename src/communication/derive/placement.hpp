// SPDX-License-Identifier: Apache-2.0
// Which dimension of which operator lies on which axes: rules by the role of a dimension, made
// from a plan, and their result for one block.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/ranges.hpp"
#include "communication/slices/block_index.hpp"
#include "communication/slices/layout.hpp"
#include "communication/slices/slice_map.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// Operators of one kind of surroundings share a table "dimension -> slices".
enum class PlacementVariant : std::uint8_t {
  Plain,           ///< Head, KvHead, Ffn, Vocab over Out; Hidden, Channel over In; tokens elsewhere
  SequenceSpread,  ///< sequence parallelism: tokens also over Out
  Attention,       ///< attends to KeySequence: ring or Ulysses over Context
  TokenExchange,   ///< between token order and expert order
  WholeSequence,   ///< takes all tokens in order: heads over Context too
};
inline constexpr std::size_t kPlacementVariantCount = 5;

/// Tables of one (network, plan, mesh); all blocks of the network share them.
struct PlacementRules {
  DeviceMesh mesh;
  std::vector<double> extents;  ///< by DimId, of one micro-batch of the whole machine
  std::array<std::vector<SliceMap>, kPlacementVariantCount> slices;  ///< by variant and DimId
  int ring_steps = 1;  ///< steps of operators that attend to KeySequence
  SequenceParallel sequence_parallel = SequenceParallel::Off;
  /// The plan's choices for single operators; null: all follow the rules. With it the rules cut
  /// over the factors of Out, all of them in order, so that equal cuts look alike.
  const Placements* placements = nullptr;

  [[nodiscard]] const SliceMap& slice(PlacementVariant variant, DimId dim) const {
    return slices[static_cast<std::size_t>(variant)][static_cast<std::size_t>(dim)];
  }
};

/// `placements` must outlive the rules.
[[nodiscard]] PlacementRules placement_rules(const Network& network, const PlanDegrees& plan,
                                             const DeviceMesh& mesh, const Framework& framework,
                                             const Placements* placements = nullptr);

/// Extent of a dimension after padding (vocabulary) and scaling (batch, routed tokens).
[[nodiscard]] double placed_extent(const Dimension& dimension, const PlanDegrees& plan,
                                   const Framework& framework);

/// The slices of one operator: its loop dimensions in order, for each phase.
struct OperatorPlacement {
  PlacementVariant variant = PlacementVariant::Plain;
  std::array<std::vector<SliceMap>, kOperatorPhaseCount> overrides;  ///< empty: the forward ones
  std::vector<SliceMap> loop;                                        ///< forward
  int steps = 1;
  bool chosen = false;  ///< cut as the plan says, not by role
  AxisSet value;        ///< along these it reads and makes parts that add up
  /// Activations that stay where they are and of which a step uses a part; all others hold what a
  /// step uses, and travel where that changes.
  FixedVector<TensorId, 4> resident;

  [[nodiscard]] const std::vector<SliceMap>& slices(OperatorPhase phase) const {
    const auto& own = overrides[static_cast<std::size_t>(phase)];
    return own.empty() ? loop : own;
  }
  [[nodiscard]] bool stays(TensorId tensor) const { return contains(resident, tensor); }
};

struct BlockPlacement {
  std::vector<OperatorPlacement> operators;
  const BlockChoice* choice = nullptr;  ///< of the plan, for the block
};

[[nodiscard]] BlockPlacement place_block(const Network& network, const Block& block,
                                         const PlacementRules& rules);
/// The same into a placement that exists: no allocation once its buffers have grown. `number`: the
/// index of the block, by which the plan's placements find it.
void place_block(const Block& block, const BlockIndex& index, const PlacementRules& rules,
                 BlockPlacement& placement, std::size_t number = 0);

/// The same for one operator of a placement that has room for it.
void place_operator(const Block& block, const BlockIndex& index, const PlacementRules& rules,
                    BlockPlacement& placement, std::size_t op);

/// Cut by role over all axes but the tensor group, and over these factors inside.
[[nodiscard]] SliceMap chosen_cut(const SliceMap& by_role, const DeviceMesh& mesh,
                                  const FactorList& factors);

/// The slices under which an operator sees the dimensions of one of its tensors: keys and values
/// are read with their tokens as KeySequence and their heads grouped under the query heads.
[[nodiscard]] FixedVector<SliceMap, kMaxTensorRank> used_slices(const Block& block,
                                                                const TensorUse& use,
                                                                const OperatorPlacement& placed,
                                                                OperatorPhase phase,
                                                                const PlacementRules& rules);

/// Factors that cut the query heads of a tensor's heads but not those themselves: several devices
/// read one key/value head, each for other queries.
[[nodiscard]] AxisSet repeated_factors(const Block& block, const TensorUse& use,
                                       const OperatorPlacement& placed, OperatorPhase phase,
                                       const PlacementRules& rules);

/// The positions in the operator's loop nest under which it reads or writes the dimensions of a
/// tensor; -1 for a dimension the nest does not have.
[[nodiscard]] FixedVector<int, kMaxTensorRank> loop_positions(const Network& network,
                                                              const Block& block,
                                                              std::size_t operator_index,
                                                              TensorId tensor);

/// The layout of a tensor at an edge of a block: what the neighbours agree on. By role, or as the
/// plan says (`cuts`).
[[nodiscard]] Layout edge_layout(const Network& network, const Block& block, TensorId tensor,
                                 const PlacementRules& rules,
                                 const std::optional<FactorCuts>& cuts = {});
/// The same where a tensor enters a placed block, or leaves it.
[[nodiscard]] Layout entering_layout(const Network& network, const Block& block, TensorId tensor,
                                     const PlacementRules& rules, const BlockPlacement& placement);
[[nodiscard]] Layout leaving_layout(const Network& network, const Block& block, TensorId tensor,
                                    const PlacementRules& rules, const BlockPlacement& placement);

}  // namespace plansearch
