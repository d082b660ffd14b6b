// SPDX-License-Identifier: Apache-2.0
// Choices without a bound, against every assignment tried. The layer of 13 operators is that of
// PrimePar (ASPLOS 2024, section 5): a chain with edges 0-7, 7-12 (residuals) and 2-5 (values).
#include "search/solvers/cost_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "support/choice_cost.hpp"

namespace plansearch::cost_table_test {
namespace {

constexpr std::size_t kLayer = 13;

ChoiceEdge random_edge(std::size_t from, std::size_t to, std::size_t states, std::mt19937& random) {
  ChoiceEdge edge{{from, to}, {}};
  for (std::size_t i = 0; i < states * states; ++i) {
    edge.costs.push_back(static_cast<double>(random() % 1000));
  }
  return edge;
}

ChoiceGraph layer_of(std::size_t states, std::mt19937& random) {
  ChoiceGraph graph;
  graph.nodes.resize(kLayer);
  for (ChoiceNode& node : graph.nodes) {
    for (std::size_t s = 0; s < states; ++s) {
      node.costs.push_back(static_cast<double>(random() % 1000));
    }
  }
  for (std::size_t n = 0; n + 1 < kLayer; ++n) {
    graph.edges.push_back(random_edge(n, n + 1, states, random));
  }
  for (const auto& [from, to] : {std::pair<std::size_t, std::size_t>{0, 7}, {7, 12}, {2, 5}}) {
    graph.edges.push_back(random_edge(from, to, states, random));
  }
  return graph;
}

/// Every assignment, the cost of what is chosen already carried along.
class Exhaustive {
 public:
  explicit Exhaustive(const ChoiceGraph& graph) : graph_(graph), options_(graph.nodes.size(), 0) {
    edges_.resize(graph.nodes.size());
    for (const ChoiceEdge& edge : graph.edges) {
      edges_[*std::max_element(edge.nodes.begin(), edge.nodes.end())].push_back(&edge);
    }
    choose(0, 0.0);
  }
  [[nodiscard]] double least() const { return least_; }

 private:
  void choose(std::size_t node, double cost) {
    if (node == options_.size()) {
      least_ = std::min(least_, cost);
      return;
    }
    const auto& costs = graph_.nodes[node].costs;
    for (options_[node] = 0; options_[node] < costs.size(); ++options_[node]) {
      double sum = cost + costs[options_[node]];
      for (const ChoiceEdge* edge : edges_[node]) {
        const std::size_t states = graph_.nodes[edge->nodes[1]].costs.size();
        sum += edge->costs[options_[edge->nodes[0]] * states + options_[edge->nodes[1]]];
      }
      choose(node + 1, sum);
    }
  }

  const ChoiceGraph& graph_;
  std::vector<std::size_t> options_;
  std::vector<std::vector<const ChoiceEdge*>> edges_;  ///< by the later of its two nodes
  double least_ = std::numeric_limits<double>::infinity();
};

TEST_SUITE("unit") {
  TEST_CASE("a layer of 13 operators: the best of all assignments") {
    std::mt19937 random(1);
    for (const auto& [states, seeds] : {std::pair{2U, 300}, {3U, 20}}) {
      for (int seed = 0; seed < seeds; ++seed) {
        const ChoiceGraph graph = layer_of(states, random);
        const Elimination best(graph, {});
        const double least = best.costs().costs.front();
        CHECK(least == Exhaustive(graph).least());
        std::vector<std::size_t> options(kLayer, 0);
        best.complete(options);
        CHECK(test::cost_of(graph, options) == least);
      }
    }
  }

  TEST_CASE("nodes that are kept: the best of the rest, whatever they are") {
    std::mt19937 random(2);
    const ChoiceGraph graph = layer_of(2, random);
    const Elimination rest(graph, {12, 3, 0});
    REQUIRE(rest.costs().nodes == std::vector<std::size_t>{12, 3, 0});
    for (std::size_t entry = 0; entry < 8; ++entry) {
      ChoiceGraph pinned = graph;
      const std::size_t chosen[] = {entry >> 2U, entry >> 1U & 1U, entry & 1U};
      std::vector<std::size_t> options(kLayer, 0);
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t node = rest.costs().nodes[i];
        pinned.nodes[node].costs[1 - chosen[i]] = ChoiceGraph::kImpossible;
        options[node] = chosen[i];
      }
      CHECK(rest.costs().costs[entry] == Exhaustive(pinned).least());
      rest.complete(options);
      CHECK(test::cost_of(graph, options) == rest.costs().costs[entry]);
    }
  }

  TEST_CASE("what is impossible everywhere has no answer") {
    std::mt19937 random(4);
    ChoiceGraph layer = layer_of(2, random);
    for (double& cost : layer.edges[4].costs) cost = ChoiceGraph::kImpossible;
    CHECK(Elimination(layer, {}).costs().costs.front() == ChoiceGraph::kImpossible);
  }
}

}  // namespace
}  // namespace plansearch::cost_table_test
