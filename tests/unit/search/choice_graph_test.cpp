// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "search/solvers/cost_table.hpp"
#include "support/choice_cost.hpp"
#include "support/rounds.hpp"

namespace plansearch::choice_graph_test {

namespace {

double least(const ChoiceGraph& graph) {
  return Elimination(graph, {}).costs().costs.front();
}

/// Every assignment, one after the other.
double brute(const ChoiceGraph& graph) {
  double best = ChoiceGraph::kImpossible;
  std::vector<std::size_t> options(graph.nodes.size(), 0);
  for (bool more = true; more;) {
    best = std::min(best, test::cost_of(graph, options));
    more = false;
    for (std::size_t n = 0; n < options.size() && !more; ++n) {
      more = ++options[n] < graph.nodes[n].costs.size();
      if (!more) options[n] = 0;
    }
  }
  return best;
}

ChoiceGraph random_graph(std::mt19937& random) {
  ChoiceGraph graph;
  graph.nodes.resize(2 + random() % 11);
  for (ChoiceNode& node : graph.nodes) {
    const std::size_t options = 1 + random() % 3;
    for (std::size_t o = 0; o < options; ++o) {
      node.costs.push_back(static_cast<double>(random() % 100));
    }
  }
  for (std::size_t a = 0; a < graph.nodes.size(); ++a) {
    for (std::size_t b = 0; b < graph.nodes.size(); ++b) {
      if (a == b || random() % 5 != 0) continue;
      ChoiceEdge edge{{a, b}, {}};
      const std::size_t c = random() % graph.nodes.size();
      if (c != a && c != b && random() % 3 == 0) edge.nodes.push_back(c);
      std::size_t count = 1;
      for (const std::size_t n : edge.nodes) count *= graph.nodes[n].costs.size();
      for (std::size_t i = 0; i < count; ++i) {
        edge.costs.push_back(random() % 8 == 0 ? ChoiceGraph::kImpossible
                                               : static_cast<double>(random() % 100));
      }
      graph.edges.push_back(edge);
    }
  }
  return graph;
}

// ---- Alpa's prototype: matrix products of a network on a mesh of two axes ----

/// By dimension of a matrix: which mesh axes cut it, one bit each.
using Spec = std::array<unsigned, 2>;
const std::vector<Spec> kSpecs{{0, 0}, {1, 0}, {0, 1}, {2, 0}, {0, 2},
                               {1, 2}, {2, 1}, {3, 0}, {0, 3}};

/// A mesh with the rates of its axes; costs as in Alpa's prototype, cut to whole numbers.
struct Mesh {
  std::array<double, 2> size;
  std::array<double, 2> beta;
  std::optional<double> gather{};  ///< what every all-gather is made to cost

  [[nodiscard]] double pieces(unsigned axes) const {
    return ((axes & 1U) != 0 ? size[0] : 1.0) * ((axes & 2U) != 0 ? size[1] : 1.0);
  }
  [[nodiscard]] double pieces(const Spec& spec) const { return pieces(spec[0] | spec[1]); }
  [[nodiscard]] double all_reduce(double bytes, std::size_t axis) const {
    const double n = size[axis];
    return std::floor(1.0 + beta[axis] * 2.0 * (n - 1.0) / n * bytes) + 0.01;
  }
  [[nodiscard]] double all_gather(double bytes, std::size_t axis) const {
    if (gather) return *gather;
    const double n = size[axis];
    return std::floor(1.0 + beta[axis] * (n - 1.0) / n * bytes) + 0.1;
  }
  /// Gathers what is cut in another way; cutting is free.
  [[nodiscard]] double reshard(double bytes, const Spec& from, const Spec& to) const {
    double cost = 0.0;
    Spec now = from;
    for (std::size_t dim = 0; dim < 2; ++dim) {
      for (std::size_t axis = 0; axis < 2; ++axis) {
        const unsigned bit = 1U << axis;
        if ((now[dim] & bit) == 0 || (to[dim] & bit) != 0) continue;
        now[dim] &= ~bit;
        if (size[axis] > 1.0) cost += all_gather(bytes / pieces(now), axis);
      }
    }
    return cost;
  }
};

/// C = A B with A (rows, inner), B (inner, columns) under one strategy.
struct DotStrategy {
  Spec a, b, c;
  double cost = 0.0;
};

std::vector<DotStrategy> dot_strategies(const Mesh& mesh, double bytes) {
  std::vector<DotStrategy> strategies;
  for (const std::size_t first : {0U, 1U}) {
    const std::size_t second = 1 - first;
    const unsigned x = 1U << first;
    const unsigned y = 1U << second;
    strategies.push_back({{x, 0}, {0, y}, {x, y}, 0.0});
    if (mesh.size[second] > 1.0) {
      strategies.push_back(
          {{x, y}, {y, 0}, {x, 0}, mesh.all_reduce(bytes / mesh.size[first], second)});
      strategies.push_back(
          {{0, y}, {y, x}, {0, x}, mesh.all_reduce(bytes / mesh.size[first], second)});
    }
  }
  return strategies;
}

/// A network of products, its gradients and its parameters as a graph of choices.
class TrainingGraph {
 public:
  explicit TrainingGraph(const Mesh& mesh) : mesh_(mesh) {}

  /// A parameter or an input: any layout.
  std::size_t leaf() {
    std::vector<Spec> specs;
    for (const Spec& spec : kSpecs) specs.push_back(spec);
    return add(specs, std::vector<double>(specs.size(), 0.0));
  }

  /// One that comes in this layout.
  std::size_t leaf(const Spec& spec) { return add({spec}, {0.0}); }

  /// Follows its operand with the dimensions turned round.
  std::size_t transposed(std::size_t a) {
    std::vector<Spec> specs;
    for (const Spec& spec : specs_[a]) specs.push_back({spec[1], spec[0]});
    const std::size_t node = add(specs, std::vector<double>(specs.size(), 0.0));
    follow(a, node);
    return node;
  }

  /// Element by element: follows the first operand, the second is brought to its layout.
  std::size_t sum(std::size_t a, std::size_t b, double bytes) {
    const std::size_t node = add(specs_[a], std::vector<double>(specs_[a].size(), 0.0));
    follow(a, node);
    connect(b, node, specs_[a], bytes);
    return node;
  }

  /// Whole on every device.
  void replicate(std::size_t a, double bytes) {
    const std::size_t node = leaf(Spec{0, 0});
    connect(a, node, {Spec{0, 0}}, bytes);
  }

  /// A product per row block and column block, batch and heads: cut along both, nothing sent.
  std::size_t batched_dot(std::size_t a, std::size_t b, double bytes) {
    const std::vector<Spec> specs{{1, 2}, {2, 1}};
    const std::size_t node = add(specs, {0.0, 0.0});
    connect(a, node, specs, bytes);
    connect(b, node, specs, bytes);
    return node;
  }

  /// `turn_*`: the operand is read transposed.
  std::size_t dot(std::size_t a, bool turn_a, std::size_t b, bool turn_b, double bytes,
                  double bytes_a, double bytes_b) {
    const auto strategies = dot_strategies(mesh_, bytes);
    std::vector<Spec> specs;
    std::vector<double> costs;
    for (const DotStrategy& s : strategies) {
      specs.push_back(s.c);
      costs.push_back(s.cost);
    }
    const std::size_t node = add(specs, costs);
    std::vector<Spec> wants_a;
    std::vector<Spec> wants_b;
    for (const DotStrategy& s : strategies) {
      wants_a.push_back(turn_a ? Spec{s.a[1], s.a[0]} : s.a);
      wants_b.push_back(turn_b ? Spec{s.b[1], s.b[0]} : s.b);
    }
    connect(a, node, wants_a, bytes_a);
    connect(b, node, wants_b, bytes_b);
    return node;
  }

  /// A gradient lies as its parameter does.
  void same_layout(std::size_t a, std::size_t b) {
    ChoiceEdge edge{{a, b}, {}};
    for (const Spec& x : specs_[a]) {
      for (const Spec& y : specs_[b]) edge.costs.push_back(x == y ? 0.0 : ChoiceGraph::kImpossible);
    }
    graph_.edges.push_back(edge);
  }

  /// Sums over rows of a gradient: all-reduced over the axes that cut the rows.
  void bias(std::size_t gradient, double bytes) {
    for (std::size_t o = 0; o < specs_[gradient].size(); ++o) {
      const Spec& spec = specs_[gradient][o];
      for (std::size_t axis = 0; axis < 2; ++axis) {
        if ((spec[0] >> axis & 1U) == 0 || mesh_.size[axis] <= 1.0) continue;
        graph_.nodes[gradient].costs[o] += mesh_.all_reduce(bytes / mesh_.pieces(spec[1]), axis);
      }
    }
  }

  [[nodiscard]] double best() const { return least(graph_); }

 private:
  std::size_t add(std::vector<Spec> specs, std::vector<double> costs) {
    specs_.push_back(std::move(specs));
    graph_.nodes.push_back({std::move(costs)});
    return specs_.size() - 1;
  }

  void follow(std::size_t from, std::size_t to) {
    ChoiceEdge edge{{from, to}, {}};
    const std::size_t options = specs_[from].size();
    for (std::size_t i = 0; i < options * options; ++i) {
      edge.costs.push_back(i / options == i % options ? 0.0 : ChoiceGraph::kImpossible);
    }
    graph_.edges.push_back(edge);
  }

  void connect(std::size_t from, std::size_t to, const std::vector<Spec>& wanted, double bytes) {
    ChoiceEdge edge{{from, to}, {}};
    for (const Spec& spec : specs_[from]) {
      for (const Spec& want : wanted) edge.costs.push_back(mesh_.reshard(bytes, spec, want));
    }
    graph_.edges.push_back(edge);
  }

  Mesh mesh_;
  ChoiceGraph graph_;
  std::vector<std::vector<Spec>> specs_;
};

/// The objective of a perceptron of equal layers, trained: products, gradients of inputs (but the
/// first) and of weights, fp32.
double perceptron(const Mesh& mesh, int layers, double batch, double hidden, bool bias,
                  std::optional<Spec> input = std::nullopt) {
  const double activation = batch * hidden * 4.0;
  const double weight = hidden * hidden * 4.0;
  TrainingGraph graph(mesh);
  std::vector<std::size_t> inputs{input ? graph.leaf(*input) : graph.leaf()};
  std::vector<std::size_t> weights;
  for (int l = 0; l < layers; ++l) {
    weights.push_back(graph.leaf());
    inputs.push_back(
        graph.dot(inputs.back(), false, weights.back(), false, activation, activation, weight));
  }
  std::size_t gradient = inputs.back();  // of the loss: element by element
  for (std::size_t l = weights.size(); l-- > 0;) {
    if (bias) graph.bias(gradient, hidden * 4.0);
    const std::size_t update =
        graph.dot(inputs[l], true, gradient, false, weight, activation, activation);
    graph.same_layout(weights[l], update);
    if (l > 0) {
      gradient = graph.dot(gradient, false, weights[l], true, activation, activation, weight);
    }
  }
  return graph.best();
}

/// (128 x 2048) times (2048 x 128), wanted whole on every device: gathers are made to cost 1e8.
double narrow_product(const Mesh& mesh, int turns_in, int turns_out, int sums) {
  constexpr double kIn = 128.0 * 2048.0 * 4.0;
  constexpr double kOut = 128.0 * 128.0 * 4.0;
  TrainingGraph graph({mesh.size, mesh.beta, 1e8});
  std::size_t a = graph.leaf();
  std::size_t b = graph.leaf();
  for (int i = 0; i < turns_in; ++i) a = graph.transposed(a), b = graph.transposed(b);
  const auto product = [&] { return graph.dot(a, false, b, false, kOut, kIn, kIn); };
  std::size_t out = product();
  for (int i = 1; i < sums; ++i) out = graph.sum(out, product(), kOut);
  for (int i = 0; i < turns_out; ++i) out = graph.transposed(out);
  graph.replicate(out, kOut);
  return graph.best();
}

/// Attention forward: rows are sequences, columns heads.
double attention(const Mesh& mesh, double rows, double hidden, bool whole) {
  const double activation = rows * hidden * 4.0;
  const double weight = hidden * hidden * 4.0;
  TrainingGraph graph({mesh.size, mesh.beta, 1e8});
  const std::size_t input = graph.leaf();
  const auto projected = [&](std::size_t from) {
    return graph.dot(from, false, graph.leaf(), false, activation, activation, weight);
  };
  const std::size_t scores = graph.batched_dot(projected(input), projected(input), activation);
  const std::size_t mixed = graph.batched_dot(projected(input), scores, activation);
  const std::size_t out = projected(mixed);
  if (whole) graph.replicate(out, activation);
  return graph.best();
}

doctest::Approx exactly(double value) {
  return doctest::Approx(value).epsilon(1e-10);
}

const Mesh kFour{{4, 1}, {1, 1}};
const Mesh kFourAcross{{1, 4}, {1, 1}};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("choices equal brute force on random graphs of up to twelve nodes") {
    std::mt19937 random(1);
    int possible = 0;
    for (int round = 0; round < test::rounds(150); ++round) {
      const ChoiceGraph graph = random_graph(random);
      const Elimination found(graph, {});
      const double expected = brute(graph);
      CHECK(found.costs().costs.front() == expected);
      if (expected == ChoiceGraph::kImpossible) continue;
      ++possible;
      // The options really cost that.
      std::vector<std::size_t> options(graph.nodes.size(), 0);
      found.complete(options);
      CHECK(test::cost_of(graph, options) == expected);
    }
    CHECK(possible > test::rounds(60));
  }

  // The closed forms that Alpa's prototype compares its solver with
  // (playground/auto_sharding_solver, tests of multi-layer perceptrons): costs a + b x bytes x
  // (n - 1) / n, twice that for all-reduce, a = 1, cut to whole numbers, + 0.01 per all-reduce.
  TEST_CASE("a wide batch shards data: two gradients of 65,536 bytes are summed over four") {
    CHECK(perceptron(kFour, 2, 1024, 128, false) == exactly(196610.02));
    CHECK(perceptron(kFourAcross, 2, 1024, 128, false) == exactly(196610.02));
    CHECK(perceptron(kFour, 12, 1024, 128, false) == exactly(1179660.12));
  }

  TEST_CASE("wide layers shard weights in pairs: one activation of 524,288 bytes is summed") {
    CHECK(perceptron(kFour, 2, 128, 1024, false) == exactly(786433.01));
    CHECK(perceptron(kFourAcross, 2, 128, 1024, false) == exactly(786433.01));
    CHECK(perceptron(kFour, 12, 128, 1024, false) == exactly(8650763.11));
  }

  TEST_CASE("biases add their gradients where data are sharded") {
    CHECK(perceptron(kFour, 2, 1024, 128, true) == exactly(198148.04));
    CHECK(perceptron(kFour, 2, 128, 1024, true) == exactly(786433.01));
  }

  // The batch comes cut over the four and gathers cost 1e10: both weights are replicated, and their
  // gradients of 4,194,304 bytes summed, though summing one activation of 524,288 would be cheaper.
  TEST_CASE("a batch that must stay cut costs two gradients") {
    const Mesh forced{{4, 1}, {1, 1}, 1e10};
    CHECK(perceptron(forced, 2, 128, 1024, false, Spec{1, 0}) == exactly(12582914.02));
  }

  // Whatever is turned round before and after, what is summed is the result of 65,536 bytes, along
  // the long dimension: 2 x 3/4 x 65,536 + 1.
  TEST_CASE("transposes follow their operand and cost nothing") {
    for (const Mesh& mesh : {kFour, kFourAcross}) {
      CHECK(narrow_product(mesh, 0, 0, 1) == exactly(98305.01));
      CHECK(narrow_product(mesh, 1, 1, 1) == exactly(98305.01));
      CHECK(narrow_product(mesh, 3, 2, 1) == exactly(98305.01));
    }
  }

  TEST_CASE("every product that is added up is summed by itself") {
    CHECK(narrow_product(kFourAcross, 0, 0, 2) == exactly(196610.02));
    CHECK(narrow_product(kFourAcross, 0, 0, 3) == exactly(294915.03));
  }

  // Heads over the axis of four (b 4, s 128, h 512: 1,048,576 bytes), or sequences over one axis of
  // four and heads over the other (h 2,048: a quarter of 4,194,304 bytes): the output projection
  // alone is summed.
  TEST_CASE("attention shards heads, and sequences where there is a second axis") {
    CHECK(attention(kFour, 4 * 128, 512, true) == exactly(1572865.01));
    CHECK(attention(kFourAcross, 4 * 128, 512, true) == exactly(1572865.01));
    CHECK(attention({{4, 4}, {1, 1}}, 4 * 128, 2048, false) == exactly(1572865.01));
  }

  TEST_CASE("on two axes data go over the slow one, weights over the fast one") {
    const auto mesh = [](double first, double second) { return Mesh{{first, second}, {1, 0.01}}; };
    CHECK(perceptron(mesh(4, 8), 2, 1024, 128, false) == exactly(26872.03));
    CHECK(perceptron(mesh(8, 4), 2, 1024, 128, false) == exactly(58330.03));
    CHECK(perceptron(mesh(3, 4), 2, 1024, 128, false) == exactly(46314.03));
    CHECK(perceptron(mesh(4, 8), 12, 1024, 128, false) == exactly(172702.23));
    CHECK(perceptron(mesh(8, 4), 12, 1024, 128, false) == exactly(354900.23));
    CHECK(perceptron(mesh(3, 4), 12, 1024, 128, false) == exactly(290994.23));
    CHECK(perceptron(mesh(4, 8), 2, 1024, 128, true) == exactly(27738.05));
    CHECK(perceptron(mesh(8, 4), 2, 1024, 128, true) == exactly(59452.05));
    CHECK(perceptron(mesh(3, 4), 2, 1024, 128, true) == exactly(47168.05));
  }
}

}  // namespace plansearch::choice_graph_test
