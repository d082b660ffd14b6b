// SPDX-License-Identifier: Apache-2.0
// What one group of blocks hands to the next: between which ranks, over which links, how long.
#pragma once

#include <span>

#include "plansearch/cluster.hpp"
#include "plansearch/plan.hpp"

namespace plansearch {

/// The way from the ranks of one position to those of another.
struct BoundaryRoute {
  /// Ranks of the largest link domain that some pair leaves; 0: all pairs stay in the innermost.
  int left_domain = 0;
  /// What the busiest rank sends or receives, over the tile that one rank of the first position
  /// holds: activations forward, their gradients backward. 0: nothing moves.
  double forward = 1.0;
  double backward = 1.0;
  bool operator==(const BoundaryRoute&) const = default;
};

/// Every receiver gets exactly what it lacks from the holder that has sent least; ranks of equal
/// meshes pair up one to one.
[[nodiscard]] BoundaryRoute boundary_route(const Cluster& cluster, const ParallelPlan& plan,
                                           int from, int to);

}  // namespace plansearch
