// SPDX-License-Identifier: Apache-2.0
// Spaces with grids of tensor axes.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "plansearch/search.hpp"
#include "support/spaces.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::grid_space_test {
namespace {

using test::all_plans;
using test::count_plans;

SearchSpace space_of(std::string_view name, const Problem& problem,
                     const PinnedDegrees& pinned = {}) {
  return std::get<SearchSpace>(make_space(name, problem, pinned));
}

/// A small question drawn at random, memory included.
Problem random_question(std::mt19937& random) {
  const auto draw = [&](std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  test::ToyOptions toy;
  toy.layers = draw({2, 3, 4, 6});
  toy.heads = draw({4, 6, 8});
  toy.hidden = 128LL * toy.heads;
  toy.seq_len = draw({256, 512, 1024});
  toy.gpus = draw({2, 4, 6, 8, 12});
  toy.global_batch = draw({4, 6, 8, 12});
  toy.memory_gib = draw({2, 3, 4, 6, 80});
  return test::toy_problem(toy);
}

/// Messages run beside kernels, so that pieces of a micro-batch are looked at.
Problem with_pieces(Problem problem) {
  Framework framework = *problem.framework;
  framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)] = {
      0.0, MessageWait::Use, {}, 1};
  problem.framework = std::make_shared<const Framework>(framework);
  return problem;
}

SearchResult searched(const PlanEvaluator& evaluator, const SearchSpace& space, Pruning pruning) {
  SearchOptions options;
  options.pruning = pruning;
  options.top = 5;
  return search(evaluator, space, options);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("grids: every product of in, out, depth and data that divides") {
    // 12 GPUs, 12 heads, hidden 768 and a batch of 12: all ordered factorisations of 12 = 2^2 x 3
    // into four, (2+3 choose 3)(1+3 choose 3) = 40; depth x data divides 12 whatever it is.
    test::ToyOptions toy;
    toy.layers = 6;
    toy.heads = 12;
    toy.hidden = 768;
    toy.gpus = 12;
    toy.global_batch = 12;
    const Problem problem = test::toy_problem(toy);
    SearchSpace space = space_of("axonn", problem,
                                 {{Degree::Zero, 0},
                                  {Degree::Recompute, 0},
                                  {Degree::SequenceParallel, 0},
                                  {Degree::MicroBatch, 1}});
    CHECK(count_plans(space) == 40);
    for (const PlanDegrees& plan : all_plans(space)) {
      CHECK(plan.devices() == 12);
      CHECK(plan.pipeline * plan.context * plan.expert * plan.chunks == 1);
    }
    CHECK(count_plans(space_of("4d", problem)) > count_plans(space_of("axonn", problem)));
  }

  TEST_CASE("grids: pieces of a micro-batch where messages have kernels to run beside") {
    test::ToyOptions toy;
    toy.gpus = 4;
    toy.global_batch = 8;
    Problem problem = test::toy_problem(toy);
    CHECK(space_of("4d", problem).dimension(Degree::Pieces).values == std::vector<int>{1});
    problem = with_pieces(problem);
    const SearchSpace space = space_of("4d", problem);
    int cut = 0;
    for (const PlanDegrees& plan : all_plans(space)) {
      CHECK(plan.micro_batch % plan.pieces == 0);
      if (plan.pieces == 1) continue;
      CHECK(plan.tensor_in * plan.tensor_out > 1);
      ++cut;
    }
    CHECK(cut > 0);
    CHECK(count_plans(space) == all_plans(space).size());
    CHECK(space_of("framework", problem).dimension(Degree::Pieces).values == std::vector<int>{1});
    for (const PlanDegrees& plan :
         all_plans(space_of("framework", problem, {{Degree::Pieces, 2}}))) {
      CHECK(plan.pieces == (plan.tensor_out > 1 ? 2 : 1));
    }
  }

  TEST_CASE("grids: a framework without them says so") {
    test::ToyOptions toy;
    Problem problem = test::toy_problem(toy);
    Framework framework = *problem.framework;
    std::erase(framework.rank_order, Axis::In);
    std::erase(framework.rank_order, Axis::Depth);
    problem.framework = std::make_shared<const Framework>(framework);
    const SearchSpace space = space_of("axonn", problem);
    CHECK(space.dimension(Degree::TensorIn).values == std::vector<int>{1});
    CHECK(std::any_of(space.left_out.begin(), space.left_out.end(), [](const std::string& text) {
      return text.find("grids of tensor axes") != std::string::npos;
    }));
  }
}

TEST_SUITE("differential") {
  TEST_CASE("grids: pruned and exhaustive searches agree on 50 random questions") {
    std::mt19937 random(9);
    std::size_t with_plans = 0;
    std::int64_t pruned = 0;
    for (int i = 0; i < 50; ++i) {
      Problem problem = random_question(random);
      if (i % 4 < 2) problem = with_pieces(std::move(problem));
      const PlanEvaluator evaluator(problem);
      const auto made = make_space(i % 2 == 0 ? "axonn" : "4d", evaluator.problem(), {});
      const auto* plans = std::get_if<SearchSpace>(&made);
      if (plans == nullptr) continue;  // no grid has as many devices and divides the batch
      const SearchSpace& space = *plans;
      const SearchResult all = searched(evaluator, space, Pruning::Off);
      const SearchResult some = searched(evaluator, space, Pruning::On);
      CAPTURE(i);
      CHECK(some.ranked == all.ranked);
      CHECK(some.counts.space == all.counts.space);
      CHECK(some.tight.has_value() == all.tight.has_value());
      with_plans += all.ranked.empty() ? 0 : 1;
      pruned += some.counts.pruned;
    }
    CHECK(with_plans > 30);
    CHECK(pruned > 0);
  }
}

}  // namespace plansearch::grid_space_test
