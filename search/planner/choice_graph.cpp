// SPDX-License-Identifier: Apache-2.0
// Computes: the cheapest assignment of a graph of choices.
// Source: variable elimination in the order of least fill (Dechter, Bucket elimination, 1999);
//         under a memory bound every entry keeps its front of cost and memory.
// Assumes: costs and memory add up.
// Units: those of the caller.
// Checked by: tests/unit/search/choice_graph_test.cpp (brute force; Alpa's closed forms)
#include "search/planner/choice_graph.hpp"

#include <algorithm>
#include <set>

#include "plansearch/error.hpp"
#include "search/planner/cost_table.hpp"

namespace plansearch {
namespace {

/// A partial assignment of nodes that are gone.
struct Point {
  double cost = 0.0;
  double memory = 0.0;
  int trace = -1;
};

/// How a point came about: two others joined, or an option taken.
struct Trace {
  int left = -1;
  int right = -1;
  std::size_t node = 0;
  std::size_t option = 0;
  bool chose = false;
};

/// The cheapest ways to have chosen what is gone, by the options of nodes that are left.
struct Factor {
  std::vector<std::size_t> scope;  ///< nodes; ascending but in an edge as it is given
  std::vector<std::vector<Point>> entries;
};

class BoundedElimination {
 public:
  BoundedElimination(const ChoiceGraph& graph, double memory) : graph_(graph), limit_(memory) {
    for (const ChoiceEdge& edge : graph.edges) add_edge(edge);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) left_.insert(n);
  }

  std::optional<Choices> run() {
    while (!left_.empty()) eliminate(narrowest());
    std::vector<Point> all{Point{}};
    for (const Factor& factor : factors_) all = joined(all, factor.entries.front());
    if (all.empty()) return std::nullopt;
    const Point& best = *std::min_element(
        all.begin(), all.end(), [](const Point& a, const Point& b) { return a.cost < b.cost; });
    Choices choices{best.cost, best.memory, std::vector<std::size_t>(graph_.nodes.size(), 0)};
    read(best.trace, choices.options);
    return choices;
  }

 private:
  [[nodiscard]] std::size_t options(std::size_t node) const {
    return graph_.nodes[node].costs.size();
  }

  void add_edge(const ChoiceEdge& edge) {
    PLANSEARCH_CHECK(!edge.line);
    Factor factor{edge.nodes, {}};
    std::sort(factor.scope.begin(), factor.scope.end());
    factor.entries.resize(edge.costs.size());
    std::vector<std::size_t> chosen(graph_.nodes.size(), 0);
    const Factor as_given{edge.nodes, {}};
    for (std::size_t entry = 0; entry < edge.costs.size(); ++entry) {
      decode(as_given, entry, chosen);
      const double cost = edge.costs[entry];
      if (cost == ChoiceGraph::kImpossible) continue;
      factor.entries[index(factor, chosen)].push_back({cost, 0.0, -1});
    }
    factors_.push_back(std::move(factor));
  }

  /// The nodes that share a factor with one, itself left out.
  [[nodiscard]] std::set<std::size_t> neighbours(std::size_t node) const {
    std::set<std::size_t> found;
    for (const Factor& factor : factors_) {
      if (contains(factor, node)) found.insert(factor.scope.begin(), factor.scope.end());
    }
    found.erase(node);
    return found;
  }

  static bool contains(const Factor& factor, std::size_t node) {
    return std::binary_search(factor.scope.begin(), factor.scope.end(), node);
  }

  /// The node whose elimination leaves the smallest table.
  [[nodiscard]] std::size_t narrowest() const {
    std::size_t best = *left_.begin();
    double least = ChoiceGraph::kImpossible;
    for (const std::size_t node : left_) {
      auto size = static_cast<double>(options(node));
      for (const std::size_t other : neighbours(node)) size *= static_cast<double>(options(other));
      if (size < least) {
        least = size;
        best = node;
      }
    }
    return best;
  }

  void eliminate(std::size_t node) {
    const std::set<std::size_t> around = neighbours(node);
    Factor made{{around.begin(), around.end()}, {}};
    std::vector<Factor> used;
    std::vector<Factor> kept;
    for (Factor& factor : factors_) {
      (contains(factor, node) ? used : kept).push_back(std::move(factor));
    }
    std::size_t size = 1;
    for (const std::size_t other : made.scope) size *= options(other);
    made.entries.resize(size);
    std::vector<std::size_t> chosen(graph_.nodes.size(), 0);
    for (std::size_t entry = 0; entry < size; ++entry) {
      decode(made, entry, chosen);
      for (chosen[node] = 0; chosen[node] < options(node); ++chosen[node]) {
        add_option(node, chosen, used, made.entries[entry]);
      }
      keep_front(made.entries[entry]);
    }
    kept.push_back(std::move(made));
    factors_ = std::move(kept);
    left_.erase(node);
  }

  /// The points of one option of a node, joined with those of the factors it stands in.
  void add_option(std::size_t node, const std::vector<std::size_t>& chosen,
                  const std::vector<Factor>& used, std::vector<Point>& into) {
    const ChoiceNode& own = graph_.nodes[node];
    const std::size_t option = chosen[node];
    if (own.costs[option] == ChoiceGraph::kImpossible) return;
    traces_.push_back({-1, -1, node, option, true});
    const double memory = own.memory.empty() ? 0.0 : own.memory[option];
    std::vector<Point> points{{own.costs[option], memory, static_cast<int>(traces_.size()) - 1}};
    for (const Factor& factor : used)
      points = joined(points, factor.entries[index(factor, chosen)]);
    into.insert(into.end(), points.begin(), points.end());
  }

  std::vector<Point> joined(const std::vector<Point>& a, const std::vector<Point>& b) {
    std::vector<Point> points;
    for (const Point& x : a) {
      for (const Point& y : b) {
        Point point{x.cost + y.cost, x.memory + y.memory, x.trace};
        if (point.memory > limit_) continue;
        if (y.trace >= 0) {
          traces_.push_back({x.trace, y.trace, 0, 0, false});
          point.trace = static_cast<int>(traces_.size()) - 1;
        }
        points.push_back(point);
      }
    }
    return points;
  }

  void keep_front(std::vector<Point>& points) const {
    std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.memory < b.memory;
    });
    std::vector<Point> front;
    for (const Point& point : points) {
      if (!front.empty() && point.memory >= front.back().memory) continue;
      front.push_back(point);
    }
    points = std::move(front);
  }

  void decode(const Factor& factor, std::size_t entry, std::vector<std::size_t>& chosen) const {
    for (std::size_t i = factor.scope.size(); i-- > 0;) {
      chosen[factor.scope[i]] = entry % options(factor.scope[i]);
      entry /= options(factor.scope[i]);
    }
  }

  [[nodiscard]] std::size_t index(const Factor& factor,
                                  const std::vector<std::size_t>& chosen) const {
    std::size_t at = 0;
    for (const std::size_t node : factor.scope) at = at * options(node) + chosen[node];
    return at;
  }

  void read(int trace, std::vector<std::size_t>& options) const {
    std::vector<int> open{trace};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (at < 0) continue;
      const Trace& step = traces_[static_cast<std::size_t>(at)];
      if (step.chose) options[step.node] = step.option;
      open.push_back(step.left);
      open.push_back(step.right);
    }
  }

  const ChoiceGraph& graph_;
  double limit_;
  std::set<std::size_t> left_;
  std::vector<Factor> factors_;
  std::vector<Trace> traces_;
};

}  // namespace

std::optional<Choices> best_choices(const ChoiceGraph& graph, double memory) {
  if (memory < ChoiceGraph::kImpossible) return BoundedElimination(graph, memory).run();
  const Elimination all(graph, {});
  if (all.costs().costs.front() == ChoiceGraph::kImpossible) return std::nullopt;
  Choices choices{all.costs().costs.front(), 0.0, std::vector<std::size_t>(graph.nodes.size(), 0)};
  all.complete(choices.options);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& memory_of = graph.nodes[n].memory;
    if (!memory_of.empty()) choices.memory += memory_of[choices.options[n]];
  }
  return choices;
}

}  // namespace plansearch
