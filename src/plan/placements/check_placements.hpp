// SPDX-License-Identifier: Apache-2.0
// Whether what a plan says of single operators can be done; not installed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ranges.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// Cuts of one dimension over axes and factors of all kinds.
inline constexpr std::size_t kMostCutsOfDimension = 8;

struct PlacedDegrees {
  const PlanDegrees& degrees;
  const Framework& framework;
  std::span<const int> factors;
};

/// Whether a plan cuts it over a tensor group: others a rule keeps whole, or gives to other axes.
[[nodiscard]] bool may_be_cut(DimRole role);
/// The dimensions of an operator that are, but for some.
[[nodiscard]] std::vector<std::string> cuttable(const Network& network, const Operator& op,
                                                const std::vector<DimId>& but = {});
/// The obstacle of an extent that does not divide.
[[nodiscard]] Obstacle obstacle_of(DimRole role);
/// Devices along factors, of those that there are.
[[nodiscard]] int product_of(const FactorList& list, const PlacedDegrees& plan);

/// Checks one operator: dimensions it has, factors used once, extents that divide.
[[nodiscard]] std::optional<Infeasible> check_cuts(const Network& network, const Operator& op,
                                                   const FactorCuts& cuts,
                                                   const PlacedDegrees& plan);
/// An operator whose value is split must be linear.
[[nodiscard]] std::optional<Infeasible> check_value(const Network& network, const Operator& op);
/// Checks an operator beside cuts that it can have: taps are whole, and the dimensions that it
/// reads through windows divide as well.
[[nodiscard]] std::optional<Infeasible> check_windows(const Network& network, const Block& block,
                                                      const Operator& op, const FactorCuts& cuts,
                                                      const PlacedDegrees& plan);
/// Checks a linear operator in steps beside these cuts: a weight, the dimensions of its product,
/// factors used once, extents that divide by all.
[[nodiscard]] std::optional<Infeasible> check_squares(const Network& network, const Block& block,
                                                      const Operator& op, const FactorCuts& cuts,
                                                      std::span<const SquareCut> squares,
                                                      const PlacedDegrees& plan);
/// Checks a linear operator whose rows travel: a weight, of which one dimension is cut over the
/// factors of the ring, rows that are cut over none of them and divide by both.
[[nodiscard]] std::optional<Infeasible> check_ring(const Network& network, const Block& block,
                                                   const Operator& op, const FactorCuts& cuts,
                                                   const RingCut& ring, const PlacedDegrees& plan);
/// Extent on one device of a dimension in an operator that is cut so, or by role.
[[nodiscard]] std::int64_t local_extent(const Network& network,
                                        const std::optional<FactorCuts>& cuts, DimId dim,
                                        const PlacedDegrees& plan);
/// Checks operators that run piece by piece: a dimension of each, pieces that need no other piece.
[[nodiscard]] std::optional<Infeasible> check_region(const Network& network, const Block& block,
                                                     const BlockChoice& choice,
                                                     const PieceRegion& region,
                                                     const PlacedDegrees& plan);
/// Whether a framework runs any.
[[nodiscard]] std::optional<Infeasible> check_pieces(const Framework& framework);
/// Checks the tensors that cross the edges of a block.
[[nodiscard]] std::optional<Infeasible> check_edge(const Network& network, const Block& block,
                                                   const FactorCuts& cuts,
                                                   const PlacedDegrees& plan);
/// All of it; operators by role against the degrees.
[[nodiscard]] std::optional<Infeasible> check_placements(const Placements& placements,
                                                         const Network& network,
                                                         const PlanDegrees& degrees,
                                                         const Framework& framework);

}  // namespace plansearch
