// SPDX-License-Identifier: Apache-2.0
// The planner of sequences against all choices one by one, and its plans against whole plans.
#include "search/strategies/partition/partition_planner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/ranges.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_stages.hpp"
#include "search/solvers/cost_table.hpp"
#include "search/strategies/strategy.hpp"
#include "support/search_space.hpp"
#include "support/tensor_group.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::partition_planner_test {
namespace {

using Options = std::vector<std::vector<std::size_t>>;

/// A table that is made line by line, over some options of every node: cut out of whole lines.
class LinesOfSome : public CostLines {
 public:
  LinesOfSome(const TensorPrices& prices, Options kept, std::size_t width)
      : prices_(prices), kept_(std::move(kept)), width_(width) {}
  void line(std::span<const std::size_t> options, std::span<double> costs) const override {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < options.size(); ++i) all.push_back(kept_[i][options[i]]);
    std::vector<double> line(width_);
    prices_.totals(all, 0.0, line);
    for (std::size_t i = 0; i < costs.size(); ++i) costs[i] = line[kept_.back()[i]];
  }
  [[nodiscard]] std::shared_ptr<const CostLines> restricted(const Options& options) const override {
    Options kept;
    for (std::size_t n = 0; n < options.size(); ++n) {
      for (const std::size_t option : options[n]) {
        if (n == kept.size()) kept.emplace_back();
        kept[n].push_back(kept_[n][option]);
      }
    }
    return std::make_shared<LinesOfSome>(prices_, std::move(kept), width_);
  }

 private:
  const TensorPrices& prices_;
  Options kept_;
  std::size_t width_;
};

Options options_of(const ChoiceTable& table, const Options& kept) {
  Options own;
  for (const std::size_t node : table.nodes) own.push_back(kept[node]);
  return own;
}

/// Some options of every node: costs of those alone.
ChoiceGraph graph_of_some(const ChoiceTables& tables,
                          const std::vector<std::vector<std::size_t>>& kept) {
  ChoiceGraph graph;
  for (std::size_t n = 0; n < tables.nodes().size(); ++n) {
    ChoiceNode& node = graph.nodes.emplace_back();
    for (const std::size_t option : kept[n]) {
      node.costs.push_back(tables.nodes()[n].costs[option].pass(Rings::Hidden).total(0.0).value());
    }
  }
  for (const ChoiceTable& table : tables.tables()) {
    ChoiceEdge& edge = graph.edges.emplace_back(ChoiceEdge{table.nodes, {}, {}});
    if (table.prices) {
      edge.lines = std::make_shared<LinesOfSome>(*table.prices, options_of(table, kept),
                                                 tables.nodes()[table.nodes.back()].costs.size());
      continue;
    }
    std::vector<std::size_t> at(table.nodes.size(), 0);
    while (true) {
      std::size_t index = 0;
      for (std::size_t i = 0; i < at.size(); ++i) {
        index = index * tables.nodes()[table.nodes[i]].costs.size() + kept[table.nodes[i]][at[i]];
      }
      edge.costs.push_back(table.costs[index].total(0.0).value());
      std::size_t i = at.size();
      while (i > 0 && ++at[i - 1] == kept[table.nodes[i - 1]].size()) at[--i] = 0;
      if (i == 0) break;
    }
  }
  return graph;
}

/// Three options for each of ten launches: 3^10 = 59,049 sums between two edges, some draws.
void compare_with_all(const Problem& problem, int tensor, int micro_batch, int draws) {
  const PlanDegrees degrees = test::tensor_groups(problem, tensor, micro_batch);
  ChoiceTables tables({problem, degrees, test::layer_block(*problem.network), 1.0});
  tables.price_tensors();
  REQUIRE(tables.launches().size() == 10);
  REQUIRE(tables.exact());
  const bool lines = std::any_of(tables.tables().begin(), tables.tables().end(),
                                 [](const ChoiceTable& table) { return table.prices != nullptr; });
  CHECK(lines == (tensor == 16));
  std::mt19937 random(7);
  for (int draw = 0; draw < draws; ++draw) {
    // Launches with as many options have the same ones, so that their layouts meet.
    std::map<std::size_t, std::vector<std::size_t>> by_count;
    std::vector<std::vector<std::size_t>> kept;
    for (const ChoiceNodeCosts& node : tables.nodes()) {
      std::vector<std::size_t>& some = by_count[node.costs.size()];
      while (some.size() < 3) some.push_back(random() % node.costs.size());
      kept.push_back(some);
      if (kept.size() > 10) kept.back().resize(1);
    }
    double least = 1e300;
    std::vector<std::size_t> at(kept.size(), 0);
    std::vector<std::size_t> chosen(kept.size(), 0);
    while (true) {
      for (std::size_t n = 0; n < at.size(); ++n) chosen[n] = kept[n][at[n]];
      least = std::min(least, tables.sum(chosen, Recompute::None, Rings::Hidden).value());
      std::size_t n = at.size();
      while (n > 0 && ++at[n - 1] == kept[n - 1].size()) at[--n] = 0;
      if (n == 0) break;
    }
    const Elimination found(graph_of_some(tables, kept), {});
    CHECK(found.costs().costs.front() == doctest::Approx(least).epsilon(1e-12));
  }
}

Seconds through_all_layers(const SequenceBound& bound, const Network& network) {
  Seconds sum;
  for (const BlockRun& run : network.order) {
    sum += bound.kernels[run.block] * static_cast<double>(run.count);
  }
  return sum;
}

double in_all_layers(const std::vector<double>& bytes, const Network& network) {
  double sum = 0.0;
  for (const BlockRun& run : network.order) {
    sum += bytes[run.block] * static_cast<double>(run.count);
  }
  return sum;
}

double bytes_of(const ChoiceTables& tables, std::size_t node, std::size_t option) {
  return tables.nodes()[node].costs[option].states + tables.nodes()[node].saved[option][0];
}

/// Bytes of four copies.
double bytes_of(const ChoiceTables& tables, const std::vector<std::size_t>& chosen) {
  double bytes = 0.0;
  for (std::size_t n = 0; n < chosen.size(); ++n) bytes += 4.0 * bytes_of(tables, n, chosen[n]);
  return bytes;
}

/// A choice at random, of every launch the option of `tries` that takes the fewest bytes.
std::vector<std::size_t> drawn(const ChoiceTables& tables, int tries, std::mt19937& random) {
  std::vector<std::size_t> chosen;
  for (std::size_t n = 0; n < tables.nodes().size(); ++n) {
    chosen.push_back(random() % tables.nodes()[n].costs.size());
    for (int again = 1; again < tries; ++again) {
      const std::size_t other = random() % tables.nodes()[n].costs.size();
      if (bytes_of(tables, n, other) < bytes_of(tables, n, chosen[n])) chosen[n] = other;
    }
  }
  chosen[tables.exit()] = chosen[tables.entry()];
  return chosen;
}

bool holds(const ChoiceTables& some, const ChoiceTables& all, std::size_t node,
           std::size_t option) {
  if (node >= all.launches().size()) return contains(some.edges(), all.edges()[option]);
  return std::ranges::any_of(some.launches()[node].options, [&](const SequenceOption& other) {
    return other.operators == all.launches()[node].options[option].operators;
  });
}

TEST_SUITE("unit") {
  TEST_CASE("sequences: over one bit the planner's choice is the best of all choices") {
    // Four options for each of four products, three for six other launches: 4^4 x 3^6 = 186,624
    // choices between every pair of equal edges; embedding and head cost what they cost alone.
    PartitionSpace space = PartitionSpace::All;
    int tensor = 2;
    SUBCASE("sequences") {}
    SUBCASE("one dimension of every operator") {
      space = PartitionSpace::OneDimension;
      tensor = 4;
    }
    const Problem problem = test::squares_problem();
    const PlanDegrees degrees = test::tensor_groups(problem, tensor, 2);
    const PartitionPlanner planner({problem, degrees, space});
    REQUIRE(planner.obstacle().empty());
    const std::size_t layer = test::layer_block(*problem.network);
    const ChoiceTables& tables = *planner.tables(layer);
    double least = 1e300;
    std::vector<std::size_t> chosen(tables.nodes().size(), 0);
    std::vector<double> ends;
    for (std::size_t edge = 0; edge < tables.edges().size(); ++edge) {
      double end = 0.0;
      for (const BlockRun& run : problem.network->order) {
        if (run.block == layer) continue;
        ChoicePricer pricer(problem, degrees, run.block, 1.0, factors_of(space, tensor));
        const auto& cuts = tables.edges()[edge];
        end += (pricer.role_kernels(cuts, Recompute::None) +
                pricer.role_messages(cuts, Recompute::None))
                   .value();
      }
      chosen.assign(tables.nodes().size(), 0);
      chosen[tables.entry()] = chosen[tables.exit()] = edge;
      double best = 1e300;
      while (true) {
        double sum = tables.sum(chosen, Recompute::None, Rings::Hidden).value();
        for (std::size_t n = 0; n < tables.nodes().size(); ++n) {
          sum += tables.nodes()[n].costs[chosen[n]].step.value() / degrees.micro_batches;
        }
        best = std::min(best, sum);
        std::size_t n = tables.launches().size();
        while (n > 0 && ++chosen[n - 1] == tables.nodes()[n - 1].costs.size()) chosen[--n] = 0;
        if (n == 0) break;
      }
      least = std::min(least, 4.0 * best + end);  // four layers
    }
    const auto found = planner.best(Recompute::None, Rings::Hidden, 0.0);
    REQUIRE(found.has_value());
    CHECK(found->sum.value() == doctest::Approx(least).epsilon(1e-12));
  }

  TEST_CASE("sequences: elimination finds the best of all choices of some options") {
    compare_with_all(test::squares_problem(), 4, 2, 10);
  }

  TEST_CASE("sequences: also where three launches that share a tensor have too many for a table") {
    // The residual stream is made, read by a norm and by the next sum: over four bits 81 options
    // each. Two nodes of eight devices, and one of 16.
    test::ToyOptions options;
    options.global_batch = 16;
    Problem problem = test::toy_problem(options);
    compare_with_all(problem, 16, 16, 3);
    auto flat = std::make_shared<Cluster>(*problem.cluster);
    flat->accelerators_per_node = 16;
    problem.cluster = flat;
    compare_with_all(problem, 16, 16, 3);
  }

  TEST_CASE("sequences: those sorted inside a tier are some of all; what they lose is printed") {
    // Eight devices of one node; sixteen of two.
    const Problem problem = test::squares_problem();
    for (const int tensor : {8, 16}) {
      const PlanDegrees degrees = test::tensor_groups(problem, tensor, 2);
      const auto least = [&](PartitionSpace space) {
        const auto plan =
            PartitionPlanner({problem, degrees, space}).best(Recompute::None, Rings::Hidden, 0.0);
        REQUIRE(plan.has_value());
        return plan->sum;
      };
      const double loss = least(PartitionSpace::Sorted) / least(PartitionSpace::All) - 1.0;
      MESSAGE(tensor << " devices: sorted sequences lose " << 100.0 * loss << " %");
      CHECK(loss >= -1e-12);
    }
  }

  TEST_CASE("sequences: bounds hold, and what has room is looked for along the front") {
    const Problem problem = test::squares_problem();
    PlanDegrees degrees = test::tensor_groups(problem, 4, 2);
    const PartitionPlanner planner({problem, degrees});
    for (const Recompute level : {Recompute::None, Recompute::Full}) {
      const SequenceBound bound = planner.bound(level);
      std::vector<PartitionPlan> front = sequence_front(planner, level, Rings::Hidden);
      REQUIRE(front.size() > 1);
      std::sort(front.begin(), front.end(),
                [](const PartitionPlan& a, const PartitionPlan& b) { return a.sum < b.sum; });
      for (const PartitionPlan& choice : front) {
        CHECK(through_all_layers(bound, *problem.network) < choice.sum);
        CHECK(in_all_layers(bound.bytes, *problem.network) <= choice.bytes * (1.0 + 1e-12));
      }
      for (std::size_t first = 1; first < front.size(); ++first) {
        const double limit = front[first].bytes;
        const auto has_room = [&](const PartitionPlan& plan) { return plan.bytes <= limit; };
        const auto found =
            fastest_with_room(planner, level, Rings::Hidden, front.front(), has_room);
        REQUIRE(found.has_value());
        CHECK(found->sum == front[first].sum);
      }
      const auto nothing = [](const PartitionPlan&) { return false; };
      CHECK_FALSE(fastest_with_room(planner, level, Rings::Hidden, front.front(), nothing));
    }
  }

  TEST_CASE("sequences: options are left out that no choice with room holds, and no others") {
    const Problem problem = test::squares_problem();
    const Network& network = *problem.network;
    const PlanDegrees degrees = test::tensor_groups(problem, 4, 2);
    const ChoiceTables all({problem, degrees, test::layer_block(network), 4.0});
    std::mt19937 random(11);
    for (const double share : {0.05, 0.1, 0.3}) {
      PartitionPlanner planner({problem, degrees});
      const double fewest = in_all_layers(planner.bound(Recompute::None).bytes, network);
      const double limit = fewest + share * (bytes_of(all, drawn(all, 1, random)) - fewest);
      REQUIRE(planner.keep({{Recompute::None, 1.0}}, [&](std::size_t, const SequenceBound& bound) {
        return in_all_layers(bound.bytes, network) <= limit;
      }));
      const ChoiceTables& kept = *planner.tables(test::layer_block(network));
      std::size_t left_out = 0;
      for (const ChoiceNodeCosts& node : all.nodes()) left_out += node.costs.size();
      for (const ChoiceNodeCosts& node : kept.nodes()) left_out -= node.costs.size();
      CHECK(left_out > 0);
      int with_room = 0;
      for (int draw = 0; draw < 20'000; ++draw) {
        const std::vector<std::size_t> chosen = drawn(all, 7, random);
        if (bytes_of(all, chosen) > limit) continue;
        ++with_room;
        for (std::size_t n = 0; n < chosen.size(); ++n) REQUIRE(holds(kept, all, n, chosen[n]));
      }
      CHECK(with_room > 0);
      const auto best = planner.best(Recompute::None, Rings::Hidden, 0.0);
      REQUIRE(best.has_value());
      const auto least =
          PartitionPlanner({problem, degrees}).best(Recompute::None, Rings::Hidden, 0.0);
      CHECK(best->sum >= least->sum);
      if (least->bytes <= limit) CHECK(best->sum == least->sum);
    }
  }

  TEST_CASE("space temporal: its best plan is never worse than the choice of least sum") {
    const Problem problem = test::squares_problem();
    const PlanEvaluator evaluator(problem);
    PlanDegrees degrees = test::tensor_groups(problem, 4, 2);
    degrees.sequence_parallel = SequenceParallel::Off;
    PinnedDegrees pinned;
    pinned.pin(Degree::TensorOut, 4);
    pinned.pin(Degree::MicroBatch, 2);
    pinned.pin(Degree::Recompute, static_cast<int>(Recompute::None));
    const SearchResult found = test::search_space("temporal", evaluator, {pinned, {}});
    REQUIRE_FALSE(found.ranked.empty());
    const PlanCandidate& best = found.ranked.front();
    const Evaluation again = evaluator.evaluate(whole_plan(evaluator, best));
    REQUIRE(std::holds_alternative<Estimate>(again));
    CHECK(std::get<Estimate>(again) == best.estimate);
    for (const Rings rings : {Rings::Hidden, Rings::Exposed}) {
      const auto least = PartitionPlanner({problem, degrees}).best(Recompute::None, rings, 0.0);
      REQUIRE(least.has_value());
      auto uniform = expand(degrees, *problem.network, *problem.framework);
      REQUIRE(std::holds_alternative<ParallelPlan>(uniform));
      const auto placed = with_placements(std::get<ParallelPlan>(uniform), least->placements,
                                          *problem.network, *problem.framework);
      REQUIRE(std::holds_alternative<ParallelPlan>(placed));
      const Evaluation priced = evaluator.evaluate(std::get<ParallelPlan>(placed));
      REQUIRE(std::holds_alternative<Estimate>(priced));
      CHECK(best.estimate.step.total() <= std::get<Estimate>(priced).step.total());
    }
  }

  TEST_CASE("space temporal: frameworks without steps and groups of other sizes are refused") {
    const Problem plain = test::toy_problem();
    const PlanEvaluator none(plain);
    CHECK_THROWS_AS((void)search(none, "temporal", {}, {}), InputError);
    const Problem problem = test::squares_problem();
    const PlanEvaluator evaluator(problem);
    PinnedDegrees three;
    three.pin(Degree::TensorOut, 3);
    CHECK_THROWS_AS((void)test::search_space("temporal", evaluator, {three, {}}), InputError);
  }

  TEST_CASE("sequences: the cheapest exposed is the same whether hidden was asked before or not") {
    // Wide layers: squares hide their tiles.
    Problem problem =
        test::toy_problem({.layers = 4, .hidden = 8192, .heads = 64, .seq_len = 2048, .gpus = 16});
    problem.framework = test::squares_problem().framework;
    int with_rings = 0;
    int without = 0;
    const PlanDegrees degrees = test::tensor_groups(problem, 4, 2);
    const PartitionPlanner asked({problem, degrees});
    for (const double seconds_per_byte : {0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9}) {
      const auto hidden = asked.best(Recompute::None, Rings::Hidden, seconds_per_byte);
      const auto exposed = asked.best(Recompute::None, Rings::Exposed, seconds_per_byte);
      const auto alone = PartitionPlanner({problem, degrees})
                             .best(Recompute::None, Rings::Exposed, seconds_per_byte);
      REQUIRE((hidden && exposed && alone));
      CHECK(exposed->sum == alone->sum);
      CHECK(exposed->placements == alone->placements);
      ++(exposed->sum == hidden->sum ? without : with_rings);
    }
    CHECK(with_rings > 0);
    CHECK(without > 0);
  }
}

}  // namespace
}  // namespace plansearch::partition_planner_test
