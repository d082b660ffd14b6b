// SPDX-License-Identifier: Apache-2.0
#include "plansearch/space.hpp"

#include <doctest/doctest.h>

#include <set>

namespace plansearch {
namespace {

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int i = 1; i <= number; ++i) {
    if (number % i == 0) found.push_back(i);
  }
  return found;
}

SearchSpace plain_space(int gpus) {
  SearchSpace space;
  space.gpus = gpus;
  space.global_batch = gpus;
  space.pipeline = space.tensor = space.context = divisors(gpus);
  space.expert = space.expert_tensor = space.micro_batch = space.chunks = {1};
  space.context_kind = {ContextKind::Ring};
  space.sequence_parallel = {SequenceParallel::Off};
  space.zero = {ZeroStage::None};
  space.recompute = {Recompute::None};
  space.schedule = {ScheduleKind::OneFOneB};
  return space;
}

SearchSpace rich_space() {
  SearchSpace space = plain_space(24);
  space.global_batch = 48;
  space.micro_batch = {1, 2, 4};
  space.expert = {1, 2, 4};
  space.expert_tensor = {1, 2};
  space.chunks = {1, 2, 3};
  space.context_kind = {ContextKind::Ring, ContextKind::Ulysses};
  space.sequence_parallel = {SequenceParallel::Off, SequenceParallel::On};
  space.zero = {ZeroStage::None, ZeroStage::Optimizer};
  space.recompute = {Recompute::None, Recompute::Full};
  space.schedule = {ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::GPipe};
  return space;
}

TEST_SUITE("perft") {
  TEST_CASE("ordered factorisations over four axes are counted by prime exponents") {
    // The number of (dp, pp, tp, cp) with product n = prod p^e is the product of C(e + 3, 3):
    // 8 = 2^3: C(6,3) = 20; 12 = 2^2 3: 10 * 4 = 40; 64 = 2^6: C(9,3) = 84; 96 = 2^5 3: 56 * 4 =
    // 224; 1024 = 2^10: C(13,3) = 286.
    CHECK(SpaceWalk(plain_space(8)).size() == 20);
    CHECK(SpaceWalk(plain_space(12)).size() == 40);
    CHECK(SpaceWalk(plain_space(64)).size() == 84);
    CHECK(SpaceWalk(plain_space(96)).size() == 224);
    CHECK(SpaceWalk(plain_space(1024)).size() == 286);
  }

  TEST_CASE("the formula counts what the walk visits, and the walk repeats nothing") {
    const SpaceWalk walk(rich_space());
    std::set<PlanDegrees> seen;
    std::int64_t visited = 0;
    for (const PlanDegrees& triple : walk.triples()) {
      std::vector<SpacePrefix> prefixes;
      walk.append_prefixes(triple, prefixes);
      std::int64_t below = 0;
      for (const SpacePrefix& prefix : prefixes) {
        std::vector<PlanDegrees> leaves;
        walk.append_leaves(prefix, leaves);
        CHECK(static_cast<std::int64_t>(leaves.size()) == walk.leaves_below(prefix));
        seen.insert(leaves.begin(), leaves.end());
        below += static_cast<std::int64_t>(leaves.size());
      }
      CHECK(below == walk.leaves_below(triple));
      visited += below;
    }
    CHECK(visited == walk.size());
    CHECK(static_cast<std::int64_t>(seen.size()) == visited);
  }

  TEST_CASE("orders that are the same are looked at once") {
    const SpaceWalk walk(rich_space());
    std::vector<SpacePrefix> prefixes;
    std::vector<PlanDegrees> leaves;
    for (const PlanDegrees& triple : walk.triples()) walk.append_prefixes(triple, prefixes);
    for (const SpacePrefix& prefix : prefixes) walk.append_leaves(prefix, leaves);
    bool has_gpipe = false;
    for (const PlanDegrees& plan : leaves) {
      if (plan.schedule != ScheduleKind::GPipe) continue;
      has_gpipe = true;
      CHECK(plan.micro_batches > 1);
      CHECK(plan.pipeline > 1);
    }
    CHECK(has_gpipe);
    SearchSpace pinned = plain_space(4);
    pinned.pipeline = {4};
    pinned.global_batch = 1;
    pinned.schedule = {ScheduleKind::GPipe};
    CHECK(SpaceWalk(pinned).size() == 1);
  }

  TEST_CASE("every plan uses all GPUs and the whole batch") {
    const SpaceWalk walk(rich_space());
    std::vector<SpacePrefix> prefixes;
    for (const PlanDegrees& triple : walk.triples()) walk.append_prefixes(triple, prefixes);
    for (const SpacePrefix& prefix : prefixes) {
      CHECK(prefix.plan.devices() == 24);
      CHECK(prefix.plan.global_batch() == 48);
    }
  }
}

}  // namespace
}  // namespace plansearch
