// SPDX-License-Identifier: Apache-2.0
// The cheapest choices: dense tables, min-plus products, and layers that repeat.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "search/solvers/choice_graph.hpp"

namespace plansearch {

/// Costs by the options of some nodes, those of the last one side by side.
using CostTable = ChoiceEdge;

/// Calls visit(options) for all options of nodes with so many each, those of the last one fastest.
template <typename Visit>
void for_each_choice(std::span<const std::size_t> sizes, Visit visit) {
  if (std::find(sizes.begin(), sizes.end(), std::size_t{0}) != sizes.end()) return;
  std::vector<std::size_t> chosen(sizes.size(), 0);
  while (true) {
    visit(chosen);
    std::size_t i = sizes.size();
    while (i > 0 && ++chosen[i - 1] == sizes[i - 1]) chosen[--i] = 0;
    if (i == 0) return;
  }
}

/// The costs of lines, all of them at hand; `sizes`: options by node of the table.
[[nodiscard]] CostTable written_out(CostTable table, std::span<const std::size_t> sizes);

/// A graph of which all nodes but some have been chosen at their cheapest, whatever the others are.
class Elimination {
 public:
  /// `sizes`: numbers of options by which the order is chosen; empty: those of the graph.
  Elimination(ChoiceGraph graph, std::vector<std::size_t> kept,
              std::vector<std::size_t> sizes = {});

  /// What the whole graph costs by the options of the nodes that are kept, in their order; their
  /// own costs are in it. Without kept nodes one number.
  [[nodiscard]] const CostTable& costs() const { return costs_; }
  /// Fills in the nodes that were chosen; `options`, by node, has those of the kept ones.
  void complete(std::vector<std::size_t>& options) const;

 private:
  /// A node, and the tables it stood in when it was chosen.
  struct Step {
    std::size_t node = 0;
    std::vector<CostTable> used;
  };
  void eliminate(std::size_t node);

  std::vector<std::vector<double>> nodes_;  ///< own costs
  std::vector<std::size_t> sizes_;
  std::vector<CostTable> tables_;  ///< of nodes that are left
  std::vector<Step> steps_;
  CostTable costs_;
};

/// The cheapest choices of `copies` layers in a row. Node `exit` of a layer is node `entry` of the
/// next one: they have the same options, and the costs of `entry` count in the first layer only.
struct RepeatedChoices {
  double cost = 0.0;
  std::vector<std::vector<std::size_t>> options;  ///< by layer and node
};
/// Nothing where every assignment is impossible. Exact; layers are merged by doubling, so that time
/// grows with the logarithm of `copies`. `after`: what follows the last layer costs by its option
/// of `exit`; empty: nothing.
[[nodiscard]] std::optional<RepeatedChoices> repeated_choices(
    const ChoiceGraph& layer, std::size_t entry, std::size_t exit, std::size_t copies,
    const std::vector<double>& after = {});

}  // namespace plansearch
