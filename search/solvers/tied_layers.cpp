// SPDX-License-Identifier: Apache-2.0
// Computes: the cheapest choices of layers that begin and end alike.
// Source: elimination (cost_table.hpp) of the options whose bound is no larger than a known
//         choice; bounds are min-marginals of a forest (Pearl's belief propagation over (min, +)).
// Assumes: costs of edges are not negative.
// Units: those of the caller.
// Checked by: tests/unit/search/tied_layers_test.cpp (all options; random graphs)
#include "search/solvers/cost_table.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "base/rows.hpp"

namespace plansearch {
namespace {

/// Bounds add the same costs up in another order.
constexpr double kRounding = 1.0 + 1e-9;
/// Lines beyond it are not written out.
constexpr std::size_t kLargestTable = 500'000;
/// Options of a node in the choice that is found first.
constexpr std::size_t kFirst = 16;
/// Where so many times as many are left, a better one is looked for among more.
constexpr std::size_t kMany = 8;

using Kept = std::vector<std::vector<std::size_t>>;  ///< options by node, ascending

class Forest {
 public:
  explicit Forest(const ChoiceGraph& graph) : graph_(graph), joins_(graph.nodes.size()) {
    std::vector<std::size_t> tree(graph.nodes.size());
    std::iota(tree.begin(), tree.end(), std::size_t{0});
    for (const ChoiceEdge& edge : graph.edges) {
      if (edge.lines) {
        if (auto bound = edge.lines->bound()) {
          const std::vector<std::size_t> nodes{edge.nodes[bound->first], edge.nodes[bound->second]};
          join(lines_.emplace_back(ChoiceEdge{nodes, std::move(bound->costs), {}}), tree);
        }
      } else if (edge.nodes.size() == 2) {
        join(edge, tree);
      }
    }
    for (std::size_t n = 0; n < tree.size(); ++n) {
      if (tree[n] == n) roots_.push_back(n);
    }
  }

  [[nodiscard]] std::vector<std::vector<double>> bounds() {
    least_.resize(graph_.nodes.size());
    std::vector<double> of_tree(least_.size());
    double total = 0.0;
    for (const std::size_t root : roots_) {
      first_ = members_.size();
      add_bounds(root, root);
      const double least = *std::ranges::min_element(least_[root]);
      for (std::size_t i = first_; i < members_.size(); ++i) of_tree[members_[i]] = least;
      total += least;
    }
    for (std::size_t n = 0; n < least_.size(); ++n) {
      double others = total - of_tree[n];
      if (total == ChoiceGraph::kImpossible) others = 0.0;
      for (double& bound : least_[n]) bound += others;
    }
    return std::move(least_);
  }

 private:
  struct Join {
    std::size_t node;
    const ChoiceEdge* edge;
  };

  /// Nothing where it would close a circle.
  void join(const ChoiceEdge& edge, std::vector<std::size_t>& tree) {
    const std::size_t a = tree[edge.nodes[0]];
    const std::size_t b = tree[edge.nodes[1]];
    if (a == b) return;
    std::ranges::replace(tree, b, a);
    joins_[edge.nodes[0]].push_back({edge.nodes[1], &edge});
    joins_[edge.nodes[1]].push_back({edge.nodes[0], &edge});
  }

  /// Least cost of the tree behind `node`, seen from `from`, by option of `from`.
  const std::vector<double>& arriving(const Join& join, std::size_t from) {
    std::vector<double>& known = arriving_[join.node * joins_.size() + from];
    if (!known.empty()) return known;
    std::vector<double> costs = graph_.nodes[join.node].costs;
    for (const Join& next : joins_[join.node]) {
      if (next.node != from) add_row(costs.data(), arriving(next, join.node).data(), costs.size());
    }
    return known = across(*join.edge, join.node, costs);
  }

  /// By option of the other end.
  [[nodiscard]] std::vector<double> across(const ChoiceEdge& edge, std::size_t node,
                                           const std::vector<double>& costs) const {
    const bool first = edge.nodes[0] == node;
    const std::size_t others = graph_.nodes[edge.nodes[first ? 1 : 0]].costs.size();
    std::vector<double> least(others, ChoiceGraph::kImpossible);
    for (std::size_t option = 0; first && option < costs.size(); ++option) {
      min_plus_row(least.data(), &edge.costs[option * others], costs[option], others);
    }
    for (std::size_t other = 0; !first && other < others; ++other) {
      least[other] = least_sum(costs.data(), &edge.costs[other * costs.size()], costs.size());
    }
    return least;
  }

  void add_bounds(std::size_t node, std::size_t from) {
    members_.push_back(node);
    least_[node] = graph_.nodes[node].costs;
    for (const Join& join : joins_[node]) {
      add_row(least_[node].data(), arriving(join, node).data(), least_[node].size());
      if (join.node != from) add_bounds(join.node, node);
    }
  }

  const ChoiceGraph& graph_;
  std::deque<ChoiceEdge> lines_;          ///< what lines cost at least
  std::vector<std::vector<Join>> joins_;  ///< by node
  std::vector<std::size_t> roots_, members_;
  std::size_t first_ = 0;
  std::map<std::size_t, std::vector<double>> arriving_;  ///< by nodes of an edge, as a number
  std::vector<std::vector<double>> least_;
};

ChoiceEdge restricted(const ChoiceEdge& edge, const ChoiceGraph& graph, const Kept& kept) {
  std::vector<std::vector<std::size_t>> own;
  std::vector<std::size_t> sizes;
  std::size_t size = 1;
  for (const std::size_t node : edge.nodes) {
    own.push_back(kept[node]);
    sizes.push_back(own.back().size());
    size *= sizes.back();
  }
  ChoiceEdge result{edge.nodes, {}, {}};
  if (edge.lines) {
    result.lines = edge.lines->restricted(own);
    return size > kLargestTable ? result : written_out(std::move(result), sizes);
  }
  result.costs.reserve(size);
  const std::size_t width = graph.nodes[edge.nodes.back()].costs.size();
  const std::span<const std::size_t> outer(sizes.data(), sizes.size() - 1);
  for_each_choice(outer, [&](const std::vector<std::size_t>& chosen) {
    std::size_t at = 0;
    for (std::size_t n = 0; n < chosen.size(); ++n) {
      at = at * graph.nodes[edge.nodes[n]].costs.size() + own[n][chosen[n]];
    }
    const double* costs = &edge.costs[at * width];
    for (const std::size_t option : own.back()) result.costs.push_back(costs[option]);
  });
  return result;
}

ChoiceGraph restricted(const ChoiceGraph& graph, const Kept& kept) {
  ChoiceGraph result;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    ChoiceNode& node = result.nodes.emplace_back();
    for (const std::size_t option : kept[n]) node.costs.push_back(graph.nodes[n].costs[option]);
  }
  for (const ChoiceEdge& edge : graph.edges) result.edges.push_back(restricted(edge, graph, kept));
  return result;
}

class TiedSolver {
 public:
  TiedSolver(const std::vector<TiedLayer>& layers, const std::vector<double>& ends)
      : layers_(layers), ends_(ends), least_(*std::ranges::min_element(ends)) {
    edges_.assign(ends.size(), 0.0);
    for (std::size_t e = 0; e < ends.size(); ++e) edges_[e] = ends[e] - least_;
    for (const TiedLayer& layer : layers) {
      excess_.push_back(option_bounds(layer.graph));
      auto& excess = excess_.back();
      const std::vector<double>& any = excess[layer.entry];
      const double total = *std::ranges::min_element(any);
      least_ += layer.copies * total;
      if (total == ChoiceGraph::kImpossible) return;
      for (std::vector<double>& node : excess) {
        for (double& bound : node) bound = layer.copies * (bound - total);
      }
      for (std::size_t e = 0; e < ends.size(); ++e) {
        edges_[e] += std::max(excess[layer.entry][e], excess[layer.exit][e]);
      }
    }
  }

  [[nodiscard]] std::optional<TiedChoice> run() const {
    if (least_ == ChoiceGraph::kImpossible) return std::nullopt;
    double most = ChoiceGraph::kImpossible;
    for (std::size_t few = kFirst;; few *= kMany / 2) {
      const auto found = solve([&](const auto& excess) { return cheapest(excess, few); });
      if (found) most = found->cost * kRounding - least_ / kRounding;
      if (left(most) <= few * kMany) break;
    }
    return solve([&](const std::vector<double>& excess) {
      std::vector<std::size_t> kept;
      for (std::size_t option = 0; option < excess.size(); ++option) {
        if (excess[option] <= most) kept.push_back(option);
      }
      return kept;
    });
  }

 private:
  /// Options of the edges within this distance of the least.
  [[nodiscard]] std::size_t left(double most) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(edges_, [&](double excess) { return excess <= most; }));
  }

  [[nodiscard]] static std::vector<std::size_t> cheapest(const std::vector<double>& excess,
                                                         std::size_t few) {
    std::vector<std::size_t> options(excess.size());
    std::iota(options.begin(), options.end(), std::size_t{0});
    std::ranges::stable_sort(options,
                             [&](std::size_t a, std::size_t b) { return excess[a] < excess[b]; });
    options.resize(std::min(options.size(), few));
    std::ranges::sort(options);
    return options;
  }

  template <typename Keep>
  [[nodiscard]] std::optional<TiedChoice> solve(Keep keep) const {
    const std::vector<std::size_t> edges = keep(edges_);
    std::vector<double> sums;
    for (const std::size_t edge : edges) sums.push_back(ends_[edge]);
    std::vector<Kept> kept;
    std::vector<Elimination> solved;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const TiedLayer& layer = layers_[l];
      Kept& own = kept.emplace_back();
      std::vector<std::size_t> sizes;
      for (std::size_t n = 0; n < layer.graph.nodes.size(); ++n) {
        own.push_back(n == layer.entry || n == layer.exit ? edges : keep(excess_[l][n]));
        sizes.push_back(layer.graph.nodes[n].costs.size());
      }
      solved.emplace_back(restricted(layer.graph, own),
                          std::vector<std::size_t>{layer.entry, layer.exit}, std::move(sizes));
      for (std::size_t e = 0; e < sums.size(); ++e) {
        sums[e] += layer.copies * solved.back().costs().costs[e * sums.size() + e];
      }
    }
    const auto least = std::ranges::min_element(sums);
    if (least == sums.end() || *least == ChoiceGraph::kImpossible) return std::nullopt;
    const auto edge = static_cast<std::size_t>(least - sums.begin());
    TiedChoice choice{*least, edges[edge], {}};
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      std::vector<std::size_t>& options = choice.options.emplace_back(kept[l].size(), 0);
      options[layers_[l].entry] = options[layers_[l].exit] = edge;
      solved[l].complete(options);
      for (std::size_t n = 0; n < options.size(); ++n) options[n] = kept[l][n][options[n]];
    }
    return choice;
  }

  const std::vector<TiedLayer>& layers_;
  const std::vector<double>& ends_;
  double least_;                                          ///< no choice costs less
  std::vector<std::vector<std::vector<double>>> excess_;  ///< over it, by layer, node and option
  std::vector<double> edges_;                             ///< the same of the edges
};

}  // namespace

std::vector<std::vector<double>> option_bounds(const ChoiceGraph& graph) {
  return Forest(graph).bounds();
}

std::optional<TiedChoice> cheapest_tied(const std::vector<TiedLayer>& layers,
                                        const std::vector<double>& ends) {
  if (ends.empty()) return std::nullopt;
  return TiedSolver(layers, ends).run();
}

}  // namespace plansearch
