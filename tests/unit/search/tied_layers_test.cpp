// SPDX-License-Identifier: Apache-2.0
// Options left out by bounds, against elimination over all of them.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "search/solvers/cost_table.hpp"

namespace plansearch::tied_layers_test {
namespace {

double random_cost(std::mt19937& random) {
  return static_cast<double>(random() % 1000);
}

/// Entry 0, exit 1, a chain between them and a tensor that three nodes share.
/// Lines of costs that are at hand.
class WrittenLines : public CostLines {
 public:
  WrittenLines(std::vector<std::size_t> sizes, std::vector<double> costs)
      : sizes_(std::move(sizes)), costs_(std::move(costs)) {}
  void line(std::span<const std::size_t> options, std::span<double> costs) const override {
    std::size_t at = 0;
    for (std::size_t n = 0; n < options.size(); ++n) at = at * sizes_[n] + options[n];
    std::copy_n(costs_.begin() + static_cast<std::ptrdiff_t>(at * costs.size()), costs.size(),
                costs.begin());
  }
  [[nodiscard]] std::shared_ptr<const CostLines> restricted(
      const std::vector<std::vector<std::size_t>>& options) const override {
    std::vector<std::size_t> sizes;
    std::size_t size = 1;
    for (const auto& own : options) {
      sizes.push_back(own.size());
      size *= own.size();
    }
    std::vector<double> costs(size);
    for (std::size_t i = 0; i < size; ++i) {
      std::size_t at = 0;
      std::size_t step = 1;
      std::size_t rest = i;
      for (std::size_t n = sizes.size(); n-- > 0;) {
        at += options[n][rest % sizes[n]] * step;
        rest /= sizes[n];
        step *= sizes_[n];
      }
      costs[i] = costs_[at];
    }
    return std::make_shared<WrittenLines>(std::move(sizes), std::move(costs));
  }

 private:
  std::vector<std::size_t> sizes_;
  std::vector<double> costs_;
};

TiedLayer random_layer(std::size_t edges, std::mt19937& random) {
  TiedLayer layer;
  layer.exit = 1;
  layer.copies = 1.0 + static_cast<double>(random() % 4);
  const std::size_t nodes = 4 + random() % 3;
  for (std::size_t n = 0; n < nodes; ++n) {
    ChoiceNode& node = layer.graph.nodes.emplace_back();
    const std::size_t options = n < 2 ? edges : 15 + random() % 25;
    for (std::size_t o = 0; o < options; ++o) node.costs.push_back(random_cost(random));
  }
  const auto add = [&](std::vector<std::size_t> ends, bool as_line) {
    ChoiceEdge edge{std::move(ends), {}, {}};
    std::size_t size = 1;
    for (const std::size_t n : edge.nodes) size *= layer.graph.nodes[n].costs.size();
    for (std::size_t i = 0; i < size; ++i) {
      edge.costs.push_back(random() % 50 == 0 ? ChoiceGraph::kImpossible : random_cost(random));
    }
    if (as_line) {
      std::vector<std::size_t> sizes;
      for (const std::size_t n : edge.nodes) sizes.push_back(layer.graph.nodes[n].costs.size());
      edge.lines = std::make_shared<WrittenLines>(std::move(sizes), std::move(edge.costs));
      edge.costs.clear();
    }
    layer.graph.edges.push_back(std::move(edge));
  };
  add({0, 2}, false);
  for (std::size_t n = 2; n + 1 < nodes; ++n) add({n, n + 1}, false);
  add({nodes - 1, 1}, false);
  add({0, 2, nodes - 1}, random() % 2 == 0);
  return layer;
}

double cost_of(const ChoiceGraph& graph, const std::vector<std::size_t>& options) {
  ChoiceGraph chosen;
  for (std::size_t n = 0; n < options.size(); ++n) {
    chosen.nodes.push_back({std::vector(graph.nodes[n].costs.size(), ChoiceGraph::kImpossible)});
    chosen.nodes[n].costs[options[n]] = graph.nodes[n].costs[options[n]];
  }
  chosen.edges = graph.edges;
  return Elimination(std::move(chosen), {}).costs().costs.front();
}

/// By option of the edges, all options of the layers looked at.
std::vector<double> all_sums(const std::vector<TiedLayer>& layers, std::vector<double> sums) {
  for (const TiedLayer& layer : layers) {
    const Elimination whole(layer.graph, {layer.entry, layer.exit});
    for (std::size_t e = 0; e < sums.size(); ++e) {
      sums[e] += layer.copies * whole.costs().costs[e * sums.size() + e];
    }
  }
  return sums;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("layers that begin and end alike cost what elimination of all options says") {
    std::mt19937 random(7);
    for (int round = 0; round < 60; ++round) {
      CAPTURE(round);
      const std::size_t edges = round % 20 == 19 ? 400 : 2 + random() % 20;
      std::vector<TiedLayer> layers;
      for (std::size_t l = 0; l < 1 + random() % 2; ++l) {
        layers.push_back(random_layer(edges, random));
      }
      std::vector<double> ends;
      for (std::size_t e = 0; e < edges; ++e) ends.push_back(random_cost(random));
      const std::vector<double> sums = all_sums(layers, ends);
      const auto least = std::min_element(sums.begin(), sums.end());
      const auto found = cheapest_tied(layers, ends);
      REQUIRE(found.has_value() == (*least != ChoiceGraph::kImpossible));
      if (!found) continue;
      CHECK(found->cost == *least);
      double sum = ends[found->edge];
      for (std::size_t l = 0; l < layers.size(); ++l) {
        CHECK(found->options[l][layers[l].entry] == found->edge);
        CHECK(found->options[l][layers[l].exit] == found->edge);
        sum += layers[l].copies * cost_of(layers[l].graph, found->options[l]);
      }
      CHECK(sum == *least);
    }
  }

  TEST_CASE("no assignment with an option costs less than the bound of the option") {
    std::mt19937 random(11);
    for (int round = 0; round < 60; ++round) {
      CAPTURE(round);
      const TiedLayer layer = random_layer(2 + random() % 10, random);
      const auto bounds = option_bounds(layer.graph);
      for (std::size_t n = 0; n < layer.graph.nodes.size(); ++n) {
        const Elimination others(layer.graph, {n});
        for (std::size_t o = 0; o < bounds[n].size(); ++o) {
          CHECK(bounds[n][o] <= others.costs().costs[o]);
        }
      }
    }
  }

  TEST_CASE("layers without a choice have none") {
    std::mt19937 random(3);
    TiedLayer layer = random_layer(4, random);
    std::fill(layer.graph.nodes[2].costs.begin(), layer.graph.nodes[2].costs.end(),
              ChoiceGraph::kImpossible);
    CHECK_FALSE(cheapest_tied({layer}, std::vector<double>(4, 0.0)).has_value());
    CHECK_FALSE(cheapest_tied({layer}, {}).has_value());
  }
}

}  // namespace plansearch::tied_layers_test
