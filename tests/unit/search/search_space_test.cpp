// SPDX-License-Identifier: Apache-2.0
#include "plansearch/space.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "base/checked.hpp"
#include "support/schedules.hpp"
#include "support/spaces.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::search_space_test {
namespace {

using test::all_plans;
using test::count_plans;

Problem question(int gpus, std::int64_t batch) {
  test::ToyOptions toy;
  toy.gpus = gpus;
  toy.global_batch = batch;
  toy.layers = 4096;
  toy.heads = 1024;
  toy.seq_len = 1 << 20;
  return test::toy_problem(toy);
}

/// The four mesh axes free, everything else pinned.
SearchSpace plain_space(int gpus) {
  SearchSpace space = all_degrees(question(gpus, gpus));
  for (SpaceDimension& dimension : space.dimensions) dimension.values.resize(1);
  for (const Degree degree : {Degree::Pipeline, Degree::TensorOut, Degree::Context, Degree::Data}) {
    space.dimension(degree).values = divisors(gpus);
  }
  space.dimension(Degree::Schedule).values = {static_cast<int>(kDefaultSchedule)};
  return space;
}

SearchSpace rich_space(std::int64_t batch = 48) {
  SearchSpace space = all_degrees(question(24, batch));
  space.dimension(Degree::Pipeline).values = divisors(24);
  space.dimension(Degree::TensorIn).values = {1, 2};
  space.dimension(Degree::TensorDepth).values = {1, 3};
  space.dimension(Degree::TensorOut).values = {1, 2, 4};
  space.dimension(Degree::Context).values = {1, 2, 3};
  space.dimension(Degree::MicroBatch).values = {1, 2, 4};
  space.dimension(Degree::Expert).values = {1, 2, 4};
  space.dimension(Degree::ExpertTensor).values = {1, 2};
  space.dimension(Degree::Chunks).values = {1, 2, 3};
  space.dimension(Degree::ShardGroup).values = {0, 2};
  look_at_equal_orders_once(space);
  return space;
}

TEST_SUITE("perft") {
  TEST_CASE("ordered factorisations over four axes are counted by prime exponents") {
    // The number of (dp, pp, tp, cp) with product n = prod p^e is the product of C(e + 3, 3):
    // 8 = 2^3: C(6,3) = 20; 12 = 2^2 3: 10 * 4 = 40; 64 = 2^6: C(9,3) = 84; 96 = 2^5 3: 56 * 4 =
    // 224; 1024 = 2^10: C(13,3) = 286.
    CHECK(count_plans(plain_space(8)) == 20);
    CHECK(count_plans(plain_space(12)) == 40);
    CHECK(count_plans(plain_space(64)) == 84);
    CHECK(count_plans(plain_space(96)) == 224);
    CHECK(count_plans(plain_space(1024)) == 286);
  }

  TEST_CASE("six axes of a grid as well") {
    // C(e + 5, 5) per prime: 8 = 2^3: C(8,5) = 56; 12 = 2^2 3: C(7,5) * C(6,5) = 21 * 6 = 126.
    for (const auto& [gpus, plans] : {std::pair{8, 56}, std::pair{12, 126}}) {
      SearchSpace space = plain_space(gpus);
      space.global_batch = 1;
      space.dimension(Degree::TensorIn).values = divisors(gpus);
      space.dimension(Degree::TensorDepth).values = divisors(gpus);
      space.constraints.resize(2);  // the mesh, without the batch
      CHECK(count_plans(space) == plans);
    }
  }

  TEST_CASE("the formula counts what the walk visits, below every partial plan of every level") {
    const SpaceWalk walk(rich_space());
    SpaceCounter counter(walk);
    for (std::size_t level = 0; level <= walk.depth(); ++level) {
      std::int64_t sum = 0;
      walk.for_each_plan(0, level, PlanDegrees{}, [&](const PlanDegrees& partial) {
        const std::int64_t below = counter.below(level, partial);
        sum += below;
        if (level < walk.depth() - 3) return;  // the rest is compared as a sum
        std::int64_t walked = 0;
        walk.for_each_plan(level, walk.depth(), partial, [&](const PlanDegrees&) { ++walked; });
        REQUIRE(walked == below);
      });
      CHECK(sum == counter.all());
    }
  }

  TEST_CASE("the walk repeats nothing, and every plan uses all GPUs and the whole batch") {
    const auto plans = all_plans(rich_space());
    CHECK(std::set<PlanDegrees>(plans.begin(), plans.end()).size() == plans.size());
    for (const PlanDegrees& plan : plans) {
      REQUIRE(plan.devices() == 24);
      REQUIRE(plan.global_batch() == 48);
    }
    // 16 sequences do not divide over a depth of 3.
    const auto fewer = all_plans(rich_space(16));
    CHECK_FALSE(fewer.empty());
    for (const PlanDegrees& plan : fewer) REQUIRE(plan.global_batch() == 16);
  }

  TEST_CASE("orders that are the same are looked at once") {
    bool has_gpipe = false;
    for (const PlanDegrees& plan : all_plans(rich_space())) {
      if (plan.schedule != test::kGPipe) continue;
      has_gpipe = true;
      CHECK(plan.micro_batches > 1);
      CHECK(plan.pipeline > 1);
    }
    CHECK(has_gpipe);
    SearchSpace pinned = plain_space(4);
    pinned.dimension(Degree::Pipeline).values = {4};
    pinned.global_batch = 1;
    pinned.dimension(Degree::Schedule).values = {static_cast<int>(test::kGPipe)};
    look_at_equal_orders_once(pinned);
    CHECK(count_plans(pinned) == 1);
  }

  TEST_CASE("chunks: what divides the layers, and small powers of two where sizes may differ") {
    const auto chunks = [](std::int64_t layers, LayerDistribution rule) {
      test::ToyOptions toy;
      toy.layers = layers;
      Problem problem = test::toy_problem(toy);
      Framework framework = *problem.framework;
      framework.layers = rule;
      problem.framework = std::make_shared<const Framework>(framework);
      return all_degrees(problem).dimension(Degree::Chunks).values;
    };
    CHECK(chunks(61, LayerDistribution::EvenOnly) == std::vector<int>{1, 61});
    CHECK(chunks(61, LayerDistribution::EvenCeil) == std::vector<int>{1, 2, 4, 8, 61});
    CHECK(chunks(94, LayerDistribution::EvenCeil) == std::vector<int>{1, 2, 4, 8, 47, 94});
    CHECK(chunks(48, LayerDistribution::EvenCeil) == chunks(48, LayerDistribution::EvenOnly));
    CHECK(chunks(3, LayerDistribution::EvenCeil) == std::vector<int>{1, 2, 3});
  }

  TEST_CASE("a degree of one value is that value wherever it applies") {
    SearchSpace space = rich_space();
    const std::int64_t all = count_plans(space);
    std::int64_t parts = 0;
    for (const int value : {1, 3}) {
      space.dimension(Degree::TensorDepth).values = {value};
      for (const PlanDegrees& plan : all_plans(space)) REQUIRE(plan.tensor_depth == value);
      parts += count_plans(space);
    }
    CHECK(parts == all);
  }
}

}  // namespace
}  // namespace plansearch::search_space_test
