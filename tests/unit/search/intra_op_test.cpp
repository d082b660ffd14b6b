// SPDX-License-Identifier: Apache-2.0
#include "search/planner/intra_op.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "plansearch/evaluator.hpp"
#include "support/toy_problem.hpp"

using namespace plansearch;

namespace {

Problem problem_of(std::int64_t heads, std::int64_t hidden) {
  test::ToyOptions options;
  options.heads = heads;
  options.hidden = hidden;
  options.seq_len = 1024;
  options.gpus = 8;
  return test::toy_problem(options);
}

PlanDegrees over(int tensor) {
  PlanDegrees degrees;
  degrees.tensor_out = tensor;
  degrees.micro_batch = 4;
  return degrees;
}

std::size_t block_of(const Network& network, BlockKind kind) {
  const auto found = std::find_if(network.blocks.begin(), network.blocks.end(),
                                  [&](const Block& block) { return block.kind == kind; });
  return static_cast<std::size_t>(found - network.blocks.begin());
}

SplitChoice any_choice(const OperatorSplit& split, std::mt19937& random) {
  SplitChoice choice;
  for (std::size_t op = 0; op < split.block().operators.size(); ++op) {
    const auto& options = split.options(op);
    choice.push_back(options[random() % options.size()]);
  }
  return choice;
}

Seconds sum_of_parts(const OperatorSplit& split, const SplitChoice& choice) {
  Seconds sum;
  for (std::size_t op = 0; op < choice.size(); ++op) sum += split.own(op, choice);
  for (std::size_t t = 0; t < split.block().tensors.size(); ++t) {
    sum += split.moving(static_cast<TensorId>(t), choice);
  }
  return sum;
}

/// The fastest of all choices whose devices hold few enough parameters.
std::optional<Seconds> brute(const OperatorSplit& split, double most_parameters) {
  std::optional<Seconds> best;
  std::vector<std::size_t> at(split.block().operators.size(), 0);
  for (bool more = true; more;) {
    SplitChoice choice;
    double parameters = 0.0;
    for (std::size_t op = 0; op < at.size(); ++op) choice.push_back(split.options(op)[at[op]]);
    for (std::size_t op = 0; op < at.size(); ++op) parameters += split.parameters(op, choice);
    if (parameters <= most_parameters) {
      const Seconds time = split.price(choice);
      if (!best || time < *best) best = time;
    }
    more = false;
    for (std::size_t op = 0; op < at.size() && !more; ++op) {
      more = ++at[op] < split.options(op).size();
      if (!more) at[op] = 0;
    }
  }
  return best;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("kernels of operators and moves of tensors are all a block costs") {
    const Problem problem = problem_of(16, 1024);
    const OperatorSplit split(problem, over(4), block_of(*problem.network, BlockKind::Decoder));
    std::mt19937 random(1);
    for (int round = 0; round < 30; ++round) {
      const SplitChoice choice = any_choice(split, random);
      CHECK(sum_of_parts(split, choice).value() ==
            doctest::Approx(split.price(choice).value()).epsilon(1e-12));
    }
  }

  TEST_CASE("the choice equals brute force on a small block, with and without a memory bound") {
    const Problem problem = problem_of(16, 1024);
    const OperatorSplit split(problem, over(4), block_of(*problem.network, BlockKind::Head));
    const SplitChoice whole(split.block().operators.size(), kWhole);
    double all = 0.0;
    for (std::size_t op = 0; op < whole.size(); ++op) all += split.parameters(op, whole);
    for (const double share : {1.0, 0.5, 0.3}) {
      const auto found = best_split(split, share * all);
      const auto expected = brute(split, share * all);
      REQUIRE(found.has_value() == expected.has_value());
      if (!found) continue;
      CHECK(found->time.value() == doctest::Approx(expected->value()).epsilon(1e-12));
      CHECK(split.price(found->choice).value() ==
            doctest::Approx(found->time.value()).epsilon(1e-12));
      CHECK(found->parameters <= share * all);
    }
    CHECK_FALSE(best_split(split, 1.0));
  }

  TEST_CASE("no other choice of a layer is faster") {
    const Problem problem = problem_of(16, 1024);
    const OperatorSplit split(problem, over(4), block_of(*problem.network, BlockKind::Decoder));
    const auto found = best_split(split);
    REQUIRE(found);
    CHECK(split.price(found->choice).value() == doctest::Approx(found->time.value()));
    std::mt19937 random(2);
    for (int round = 0; round < 500; ++round) {
      CHECK(found->time <= split.price(any_choice(split, random)) * (1.0 + 1e-12));
    }
    // One operator changed at a time.
    for (std::size_t op = 0; op < found->choice.size(); ++op) {
      for (const int option : split.options(op)) {
        SplitChoice other = found->choice;
        other[op] = option;
        CHECK(found->time <= split.price(other) * (1.0 + 1e-12));
      }
    }
  }

  TEST_CASE("25 heads do not go over eight devices, the FFN does") {
    // GPT-2 XL: 1600 = 25 x 64 features; 6400 divide by 8.
    const Problem problem = problem_of(25, 1600);
    PlanDegrees uniform = over(8);
    uniform.micro_batches = 8;
    const PlanEvaluator evaluator(problem);
    REQUIRE(evaluator.legality(uniform));
    CHECK(evaluator.legality(uniform)->obstacle == Obstacle::HeadsNotDivisible);
    const OperatorSplit split(problem, over(8), block_of(*problem.network, BlockKind::Decoder));
    const auto found = best_split(split);
    REQUIRE(found);
    CHECK(split_text(split, found->choice).find("ffn") != std::string::npos);
    CHECK(split_text(split, found->choice).find("head") == std::string::npos);
    const SplitChoice whole(found->choice.size(), kWhole);
    CHECK(found->time < split.price(whole));
    CHECK(split_text(split, whole) == "nothing");
  }
}
