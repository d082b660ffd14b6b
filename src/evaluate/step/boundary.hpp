// SPDX-License-Identifier: Apache-2.0
// The transfer from one group of blocks to the next: between which ranks, over which links.
#pragma once

#include "plansearch/cluster.hpp"
#include "plansearch/plan.hpp"

namespace plansearch {

/// The gather among neighbours of the receiving mesh, which have received parts.
struct RouteGather {
  double tiles = 0.0;  ///< what each has in the end
  int ranks = 1;
  bool operator==(const RouteGather&) const = default;
};

/// The path from the ranks of one position to those of another.
struct StageLink {
  /// Ranks of the largest link domain that some pair leaves; 0: all pairs stay in the innermost.
  int left_domain = 0;
  /// The share that the busiest rank sends or receives, of the tile that one rank of the first
  /// position holds: activations forward, their gradients backward. 0: nothing moves. Over a
  /// network of cards that ranks share: as much as a rank would send if all of a domain sent alike.
  double forward = 1.0;
  double backward = 1.0;
  RouteGather forward_gather{};
  RouteGather backward_gather{};
  bool operator==(const StageLink&) const = default;
};

/// Whether stages that are split like this hold the same tiles on ranks that lie alike.
[[nodiscard]] bool pair_up(const DeviceMesh& a, const PlanDegrees& degrees_a, const DeviceMesh& b,
                           const PlanDegrees& degrees_b);

/// Ranks of equal meshes pair up one to one. Between others every receiver gets exactly what it
/// lacks from the holder that has sent least; over a network by the strategy (messages, local
/// all-gather, broadcast; communication/redistribution/mesh_transfer.hpp) that keeps its cards busy
/// least.
[[nodiscard]] StageLink boundary_route(const Cluster& cluster, const ParallelPlan& plan, int from,
                                       int to);
/// The same between any places of the plan's transforms. Ranks at both ends keep what they hold;
/// where some are, all ranks of the larger end form a group that hands a tile on (a broadcast).
[[nodiscard]] StageLink boundary_route(const Cluster& cluster, const ParallelPlan& plan,
                                       const DevicePosition& from, const DevicePosition& to);

}  // namespace plansearch
