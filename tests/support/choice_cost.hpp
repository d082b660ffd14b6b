// SPDX-License-Identifier: Apache-2.0
// What one choice for every node of a graph costs, by its definition.
#pragma once

#include <cstddef>
#include <vector>

#include "search/solvers/cost_table.hpp"

namespace plansearch::test {

[[nodiscard]] inline double cost_of(const ChoiceGraph& graph,
                                    const std::vector<std::size_t>& options) {
  double cost = 0.0;
  for (std::size_t n = 0; n < options.size(); ++n) cost += graph.nodes[n].costs[options[n]];
  for (const ChoiceEdge& edge : graph.edges) {
    std::size_t at = 0;
    for (const std::size_t n : edge.nodes) at = at * graph.nodes[n].costs.size() + options[n];
    cost += edge.costs[at];
  }
  return cost;
}

}  // namespace plansearch::test
