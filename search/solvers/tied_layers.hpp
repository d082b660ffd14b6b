// SPDX-License-Identifier: Apache-2.0
// The cheapest choices of layers that all begin and end with one option. Options that no cheapest
// choice can hold are left out before tables are multiplied.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "search/solvers/cost_table.hpp"

namespace plansearch {

/// Layers of one kind. Costs of edges are not negative.
struct TiedLayer {
  ChoiceGraph graph;
  std::size_t entry = 0;  ///< nodes; all entries and exits have the same options
  std::size_t exit = 0;
  double copies = 1.0;
};

struct TiedChoice {
  double cost = 0.0;
  std::size_t edge = 0;                           ///< option of entries and exits
  std::vector<std::vector<std::size_t>> options;  ///< by layer and node
};

/// `ends`: further costs of the options of the edges. Nothing where every choice is impossible.
/// Exact: the same numbers, and of equal choices the same one, as without leaving options out.
[[nodiscard]] std::optional<TiedChoice> cheapest_tied(const std::vector<TiedLayer>& layers,
                                                      const std::vector<double>& ends);

/// By node and option: no assignment with this option costs less. A forest of edges of two nodes,
/// and of bounds of lines, is added up; other edges count as free.
[[nodiscard]] std::vector<std::vector<double>> option_bounds(const ChoiceGraph& graph);

}  // namespace plansearch
