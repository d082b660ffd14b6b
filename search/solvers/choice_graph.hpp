// SPDX-License-Identifier: Apache-2.0
// One choice per node of a graph, with costs at nodes and between neighbours: the intra-operator
// problem.
#pragma once

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
  /// Of these options of each node alone, which count from 0 in their order.
  [[nodiscard]] virtual std::shared_ptr<const CostLines> restricted(
      const std::vector<std::vector<std::size_t>>& options) const = 0;
  /// What no assignment with these two options costs less than; nothing where that is not known.
  [[nodiscard]] virtual std::optional<PairBound> bound() const { return std::nullopt; }
};

/// What neighbours, two or more, cost together.
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

}  // namespace plansearch
