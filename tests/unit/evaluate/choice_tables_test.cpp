// SPDX-License-Identifier: Apache-2.0
// Tables of choices against whole plans: what a plan's report says of its layers is what the tables
// of its choices sum to.
#include "partition/choice_tables.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>

#include "plan/stages/expand.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/plan_stages.hpp"
#include "support/tensor_group.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::choice_tables_test {
namespace {

/// Kernels and messages of one copy of the layer, from the report of the whole plan.
Seconds reported(const Problem& problem, const PlanDegrees& degrees, std::size_t layer,
                 const std::vector<int>& factors, const BlockChoice& choice) {
  const Network& network = *problem.network;
  Placements placements{factors, {}};
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    BlockChoice& block = placements.blocks.emplace_back();
    block.operators.resize(network.blocks[b].operators.size());
    if (b == layer) block = choice;
  }
  auto uniform = expand(degrees, network, *problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(uniform));
  auto placed =
      with_placements(std::get<ParallelPlan>(uniform), placements, network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) FAIL(bad->detail);
  const PlanEvaluator evaluator(problem);
  Seconds sum;
  for (const OperatorReport& line :
       plan_details(evaluator, std::get<ParallelPlan>(placed)).operators) {
    if (line.block == network.blocks[layer].name) sum += line.total();
  }
  return sum;
}

/// Whether no two factors cut together everywhere: in a plan they would be one, and ways through
/// layouts that tell them apart closed.
bool keeps_factors(const Problem& problem, const std::vector<int>& factors, std::size_t layer,
                   const ChoiceTables& tables, const std::vector<std::size_t>& chosen) {
  Placements placements{factors, {}};
  placements.blocks.resize(problem.network->blocks.size());
  for (std::size_t b = 0; b < placements.blocks.size(); ++b) {
    placements.blocks[b].operators.resize(problem.network->blocks[b].operators.size());
  }
  placements.blocks[layer] = tables.choice(chosen);
  return with_merged_factors(placements).factors.size() == placements.factors.size();
}

void compare(const Problem& problem, int tensor, int micro_batch, PartitionSpace space,
             int rounds) {
  const PlanDegrees degrees = test::tensor_groups(problem, tensor, micro_batch);
  const std::size_t layer = test::layer_block(*problem.network);
  const std::vector<int> factors = factors_of(space, tensor);
  ChoiceTables tables({problem, degrees, layer, 1.0, space});
  tables.price_tensors();
  CHECK(tables.exact());
  std::mt19937 random(static_cast<unsigned>(tensor));
  for (int round = 0; round < rounds; ++round) {
    // Every other time launches with as many options take the same one: layouts meet.
    std::map<std::size_t, std::size_t> by_count;
    std::vector<std::size_t> chosen;
    for (const ChoiceNodeCosts& node : tables.nodes()) {
      REQUIRE_FALSE(node.costs.empty());
      const auto drawn = by_count.try_emplace(node.costs.size(), random() % node.costs.size());
      chosen.push_back(round % 2 == 0 ? drawn.first->second : random() % node.costs.size());
    }
    const double expected =
        reported(problem, degrees, layer, factors, tables.choice(chosen)).value();
    if (!keeps_factors(problem, factors, layer, tables, chosen)) continue;
    CHECK(tables.sum(chosen, Recompute::None, Rings::Exposed).value() ==
          doctest::Approx(expected).epsilon(1e-9));
  }
}

TEST_SUITE("unit") {
  TEST_CASE("choice tables: random choices of a layer sum to what their plan is made of") {
    test::ToyOptions options;
    options.gpus = 16;
    const Problem problem = test::toy_problem(options);
    compare(problem, 2, 2, PartitionSpace::All, 40);
    compare(problem, 4, 2, PartitionSpace::All, 60);
    compare(problem, 8, 2, PartitionSpace::All, 60);
  }

  TEST_CASE("choice tables: the same where tables are made line by line, up to 32 devices") {
    test::ToyOptions options;
    options.gpus = 32;
    Problem problem = test::toy_problem(options);
    compare(problem, 16, 16, PartitionSpace::All, 60);
    compare(problem, 32, 2, PartitionSpace::Paper, 40);
    auto flat = std::make_shared<Cluster>(*problem.cluster);
    flat->accelerators_per_node = 32;
    problem.cluster = flat;
    compare(problem, 16, 16, PartitionSpace::Paper, 60);
  }

  TEST_CASE("choice tables: prices of moves are those of other numbers of replicas and stages") {
    test::ToyOptions options;
    options.gpus = 16;
    const Problem problem = test::toy_problem(options);
    const std::size_t layer = test::layer_block(*problem.network);
    const std::vector<int> factors = factors_of(PartitionSpace::All, 4);
    const PlanDegrees one = test::tensor_groups(problem, 4, 2);
    PlanDegrees other = one;
    other.pipeline = 2;
    other.data = 2;
    other.micro_batches = 2 * one.micro_batches;
    REQUIRE(one.data == 4);
    REQUIRE(share_routes(problem, one, other, factors));
    PlanDegrees sharded = other;
    sharded.shard_group = 2;
    CHECK_FALSE(share_routes(problem, one, sharded, factors));
    CHECK_FALSE(share_routes(problem, one, test::tensor_groups(problem, 2, 2), factors));
    const auto moves = std::make_shared<ReshardingPrices>(make_known_routes(problem, one, factors));
    ChoiceTables first({problem, one, layer, 1.0, PartitionSpace::All, moves});
    first.price_tensors();
    ChoiceTables shared({problem, other, layer, 1.0, PartitionSpace::All, moves});
    shared.price_tensors();
    ChoiceTables alone({problem, other, layer, 1.0, PartitionSpace::All});
    alone.price_tensors();
    REQUIRE(shared.tables().size() == alone.tables().size());
    double all = 0.0;
    for (std::size_t t = 0; t < alone.tables().size(); ++t) {
      const auto& expected = alone.tables()[t].costs;
      REQUIRE(shared.tables()[t].costs.size() == expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(shared.tables()[t].costs[i] == expected[i]);
        all += expected[i].rest.value();
      }
    }
    CHECK(all > 0.0);
  }

  TEST_CASE("choice tables: operators along one dimension, over groups of any size") {
    // GPT-2 XL's widths: 25 heads of 64, 6400 features of the FFN.
    test::ToyOptions options;
    options.heads = 25;
    options.hidden = 1600;
    options.gpus = 8;
    compare(test::toy_problem(options), 8, 4, PartitionSpace::OneDimension, 40);
    options.heads = 6;
    options.hidden = 384;
    options.gpus = 6;
    options.global_batch = 12;
    compare(test::toy_problem(options), 3, 2, PartitionSpace::OneDimension, 40);
  }

  TEST_CASE("choice tables: one dimension of an operator, where it divides") {
    test::ToyOptions options;
    options.heads = 25;
    options.hidden = 1600;
    options.gpus = 8;
    const Problem problem = test::toy_problem(options);
    const Block& block = problem.network->blocks[test::layer_block(*problem.network)];
    std::map<std::string, std::vector<std::string>> names;
    for (const FusedGroupOptions& launch : sequence_options(
             problem, test::tensor_groups(problem, 8, 4), block, PartitionSpace::OneDimension)) {
      for (const SequenceOption& option : launch.options) {
        names[block.operators[launch.operators.front()].name].push_back(option.name);
      }
    }
    CHECK(names.at("attention") == std::vector<std::string>{"whole"});
    CHECK(names.at("mlp_in").size() == 3);  // whole, features of the stream, FFN
    CHECK(std::count(names.at("mlp_in").begin(), names.at("mlp_in").end(), "ffn") == 1);
  }

  TEST_CASE("choice tables: a linear operator has all sequences of the paper") {
    // 4, 17, 72 sequences over one, two, three bits; two sequences of the batch keep them all at
    // one bit, and eight at three.
    const Problem problem = test::toy_problem();
    const std::size_t layer = test::layer_block(*problem.network);
    const std::array<std::size_t, 3> counts{4, 17, 72};
    for (int bits = 1; bits <= 3; ++bits) {
      const PlanDegrees degrees = test::tensor_groups(problem, 1 << bits, 8);
      const auto launches =
          sequence_options(problem, degrees, problem.network->blocks[layer], PartitionSpace::Paper);
      const auto mlp =
          std::find_if(launches.begin(), launches.end(), [&](const FusedGroupOptions& launch) {
            const auto& op = problem.network->blocks[layer].operators[launch.operators.front()];
            return op.name == "mlp_in";
          });
      REQUIRE(mlp != launches.end());
      CHECK(mlp->options.size() == counts[static_cast<std::size_t>(bits - 1)]);
    }
  }

  TEST_CASE("choice tables: what carries the residual stream may be replicated, nothing else") {
    // A norm takes batch, rows or features: 3, 9, 27 sequences. With replicas behind a bits of the
    // batch, b >= 1 bits whole and m left, of rows and features or of batch and features in any
    // order (2 x 2^m - 1): one bit: R; two: RR, BR, and R before B, M or K; three: 3 x 1 + 2 x 3
    // + 7.
    const Problem problem = test::toy_problem();
    const Block& block = problem.network->blocks[test::layer_block(*problem.network)];
    const std::array<std::size_t, 3> of_paper{3, 9, 27};
    const std::array<std::size_t, 3> replicated{1, 5, 16};
    for (int bits = 1; bits <= 3; ++bits) {
      const auto i = static_cast<std::size_t>(bits - 1);
      const PlanDegrees degrees = test::tensor_groups(problem, 1 << bits, 8);
      for (const PartitionSpace space : {PartitionSpace::Paper, PartitionSpace::All}) {
        const bool all = space == PartitionSpace::All;
        for (const FusedGroupOptions& launch : sequence_options(problem, degrees, block, space)) {
          const Operator& op = block.operators[launch.operators.front()];
          const auto whole = std::count_if(launch.options.begin(), launch.options.end(),
                                           [](const SequenceOption& option) {
                                             return option.name.find('R') != std::string::npos;
                                           });
          const bool carries = op.kind == OperatorKind::Norm || op.name.starts_with("residual");
          CHECK(static_cast<std::size_t>(whole) == (all && carries ? replicated[i] : 0));
          if (op.kind == OperatorKind::Norm) {
            CHECK(launch.options.size() == of_paper[i] + (all ? replicated[i] : 0));
          }
        }
        CHECK(edge_options(problem, degrees, block, space).size() ==
              of_paper[i] + (all ? replicated[i] : 0));
      }
    }
  }

  TEST_CASE("choice tables: prices of some options are those options' lines of the whole") {
    // Over 32 devices tensors with two readers are not written out.
    const Problem problem = test::toy_problem({.gpus = 32});
    const PlanDegrees degrees = test::tensor_groups(problem, 32, 2);
    ChoiceTables tables({problem, degrees, test::layer_block(*problem.network), 1.0});
    tables.price_tensors();
    std::mt19937 random(5);
    int priced = 0;
    for (const ChoiceTable& table : tables.tables()) {
      if (!table.prices) continue;
      ++priced;
      std::vector<std::vector<std::size_t>> kept;
      for (const std::size_t node : table.nodes) {
        std::vector<std::size_t>& own = kept.emplace_back();
        const std::size_t options = tables.nodes()[node].costs.size();
        for (int i = 0; i < 20; ++i) own.push_back(random() % options);
      }
      const TensorPrices some = table.prices->restricted(kept);
      const std::vector<double> pairs = some.first_pair(1.0);
      const std::size_t reader = some.first_reader();
      REQUIRE(reader == 1);
      std::vector<double> whole(tables.nodes()[table.nodes.back()].costs.size());
      std::vector<double> line(kept.back().size());
      for (std::size_t first = 0; first < 20; ++first) {
        for (std::size_t second = 0; second < 20; ++second) {
          some.totals(std::vector{first, second}, 1.0, line);
          table.prices->totals(std::vector{kept[0][first], kept[1][second]}, 1.0, whole);
          for (std::size_t i = 0; i < line.size(); ++i) {
            CHECK(line[i] == whole[kept.back()[i]]);
            CHECK(pairs[first * 20 + second] <= line[i] * (1.0 + 1e-12));
          }
        }
      }
    }
    CHECK(priced == 2);
  }
}

}  // namespace
}  // namespace plansearch::choice_tables_test
