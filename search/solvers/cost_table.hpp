// SPDX-License-Identifier: Apache-2.0
// The cheapest choices of a graph with costs at nodes and between neighbours (the intra-operator
// problem): dense tables and min-plus products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace plansearch {

/// The options of one operator or tensor. Infinite costs are impossible ones.
struct ChoiceNode {
  std::vector<double> costs;
};

/// Costs of two options, by places of their nodes in an edge: [option of first][option of second].
struct PairBound {
  std::size_t first = 0;
  std::size_t second = 1;
  std::vector<double> costs;
};

/// Costs that are too many to be kept.
class CostLines {
 public:
  virtual ~CostLines() = default;
  /// Costs by option of the last node, for options of those before it.
  virtual void line(std::span<const std::size_t> options, std::span<double> costs) const = 0;
  /// The lines of these options of each node alone, which count from 0 in their order.
  [[nodiscard]] virtual std::shared_ptr<const CostLines> restricted(
      const std::vector<std::vector<std::size_t>>& options) const = 0;
  /// Lower bounds of all assignments by two options; nothing where none is known.
  [[nodiscard]] virtual std::optional<PairBound> bound() const { return std::nullopt; }
};

/// Joint costs of neighbours, two or more.
struct ChoiceEdge {
  std::vector<std::size_t> nodes;            ///< each once
  std::vector<double> costs{};               ///< [option of the first][option of the second]...
  std::shared_ptr<const CostLines> lines{};  ///< instead of costs
};

struct ChoiceGraph {
  static constexpr double kImpossible = std::numeric_limits<double>::infinity();
  std::vector<ChoiceNode> nodes;
  std::vector<ChoiceEdge> edges;
};

/// Costs by the options of some nodes, those of the last one side by side.
using CostTable = ChoiceEdge;

/// Calls visit(options) for all options of nodes with so many each, those of the last one fastest.
template <typename Visit>
void for_each_choice(std::span<const std::size_t> sizes, Visit visit) {
  if (std::ranges::find(sizes, std::size_t{0}) != sizes.end()) return;
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

  /// Costs of the whole graph by the options of the nodes that are kept, in their order; their
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

/// Layers of one kind that all begin and end with one option. Costs of edges are not negative.
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
