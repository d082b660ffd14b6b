// SPDX-License-Identifier: Apache-2.0
// One choice per node of a graph, with costs at nodes and between neighbours: the intra-operator
// problem.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace plansearch {

/// The options of one operator or tensor. Infinite costs are impossible ones.
struct ChoiceNode {
  std::vector<double> costs;
};

/// Costs by option of the last node, for options of those before it.
using CostLine = std::function<void(std::span<const std::size_t> options, std::span<double> costs)>;

/// What neighbours, two or more, cost together.
struct ChoiceEdge {
  std::vector<std::size_t> nodes;  ///< each once
  std::vector<double> costs{};     ///< [option of the first][option of the second]...
  CostLine line{};                 ///< instead of costs, where they are too many to be kept
};

struct ChoiceGraph {
  static constexpr double kImpossible = std::numeric_limits<double>::infinity();
  std::vector<ChoiceNode> nodes;
  std::vector<ChoiceEdge> edges;
};

}  // namespace plansearch
