// SPDX-License-Identifier: Apache-2.0
// Degrees multiply to numbers beyond 32 bits while a space is walked: 65,536 x 65,536 once wrapped
// to 0, and the search divided by it.
#include <doctest/doctest.h>

#include <bit>
#include <limits>
#include <memory>
#include <set>

#include "plansearch/shipped_data.hpp"
#include "plansearch/space.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::largest_machines_test {
namespace {

/// A network that any power of two may cut, one sequence a GPU.
Problem wide_problem(int gpus) {
  test::ToyOptions toy;
  toy.gpus = gpus;
  toy.global_batch = gpus;
  toy.layers = 128;
  toy.heads = 128;
  toy.hidden = 16384;
  return test::toy_problem(toy);
}

/// Every machine that ships as a whole and cut to a power of two, and the sizes that once wrapped.
std::set<int> sizes() {
  std::set<int> sizes{1 << 16, 1 << 17, 1 << 20, 983'040};
  const ShippedData data = shipped_data();
  for (const ShippedFile& file : data.clusters()) {
    const int all = data.cluster(file.path.string()).accelerators();
    sizes.insert(all);
    sizes.insert(static_cast<int>(std::bit_floor(static_cast<unsigned>(all))));
  }
  return sizes;
}

TEST_SUITE("unit") {
  TEST_CASE("products of degrees stop at the largest int") {
    constexpr int kMost = std::numeric_limits<int>::max();
    PlanDegrees plan;
    plan.data = plan.pipeline = plan.chunks = 1 << 16;
    plan.expert = plan.expert_tensor = 1 << 16;
    CHECK(plan.devices() == kMost);
    CHECK(plan.virtual_stages() == kMost);
    CHECK(plan.expert_ranks() == kMost);
    CHECK(plan.stage_ranks() == 1 << 16);
    plan.tensor_in = plan.tensor_out = plan.tensor_depth = kMost;
    CHECK(plan.tensor() == kMost);
    CHECK(plan.devices() == kMost);
  }

  TEST_CASE("every space of degrees at every size that ships") {
    for (const int gpus : sizes()) {
      CAPTURE(gpus);
      const Problem problem = wide_problem(gpus);
      for (const NamedSpace& named : named_spaces()) {
        if (named.build == nullptr) continue;
        CAPTURE(named.name);
        const auto space = make_space(named.name, problem, {});
        REQUIRE(std::holds_alternative<SearchSpace>(space));
        const SpaceWalk walk(std::get<SearchSpace>(space));
        CHECK(SpaceCounter(walk).all() > 0);
      }
    }
  }
}

}  // namespace
}  // namespace plansearch::largest_machines_test
