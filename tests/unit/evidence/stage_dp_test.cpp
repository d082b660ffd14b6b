// SPDX-License-Identifier: Apache-2.0
#include "evidence/reproduce/alpa/alpa_planner.hpp"
#include "support/rounds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace plansearch::stage_dp_test {

namespace {

/// numpy's random_sample: 53 bits of two words of the generator.
double unit(std::mt19937& random) {
  const double high = static_cast<double>(random() >> 5U);
  const double low = static_cast<double>(random() >> 6U);
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

/// Filled in the order [first][last][mesh][configuration], as numpy fills an array.
StageTable random_table(std::mt19937& random, int layers, std::vector<int> devices, int configs) {
  const int meshes = static_cast<int>(devices.size());
  StageTable table(layers, std::move(devices), configs);
  for (int first = 0; first < layers; ++first) {
    for (int last = 0; last < layers; ++last) {
      for (int mesh = 0; mesh < meshes; ++mesh) {
        for (int c = 0; c < configs; ++c) table.cost(first, last, mesh, c) = unit(random);
      }
    }
  }
  return table;
}

/// Every partition, one stage after the other.
class Brute {
 public:
  Brute(const StageTable& table, int devices, int micro_batches)
      : table_(table), devices_(devices), micro_batches_(micro_batches) {}

  std::optional<double> best() {
    extend(0, 0);
    return best_;
  }

 private:
  void extend(int first, int used) {
    if (first == table_.layers()) {
      if (used == devices_) judge();
      return;
    }
    for (int last = first; last < table_.layers(); ++last) {
      for (int mesh = 0; mesh < static_cast<int>(table_.devices().size()); ++mesh) {
        const int devices = table_.devices()[static_cast<std::size_t>(mesh)];
        if (used + devices > devices_) continue;
        for (int c = 0; c < table_.configurations(); ++c) {
          stages_.push_back({first, last, mesh, c, table_.cost(first, last, mesh, c)});
          extend(last + 1, used + devices);
          stages_.pop_back();
        }
      }
    }
  }

  void judge() {
    double sum = 0.0;
    double longest = 0.0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const StageChoice& stage = stages_[s];
      const int behind = static_cast<int>(stages_.size() - 1 - s);
      if (table_.successors(stage.first, stage.last, stage.mesh, stage.configuration) < behind) {
        return;
      }
      sum += stage.cost;
      longest = std::max(longest, stage.cost);
    }
    const double total = sum + (micro_batches_ - 1) * longest;
    if (total < StageTable::kImpossible && (!best_ || total < *best_)) best_ = total;
  }

  const StageTable& table_;
  int devices_;
  int micro_batches_;
  std::vector<StageChoice> stages_;
  std::optional<double> best_;
};

/// A small table with random memory: some stages impossible, some with room for few behind them.
StageTable tight_table(std::mt19937& random) {
  const int layers = 2 + static_cast<int>(random() % 5);
  std::vector<int> meshes{1, 2, 4, 8};
  meshes.resize(2 + random() % 3);
  StageTable table = random_table(random, layers, meshes, 2);
  for (int first = 0; first < layers; ++first) {
    for (int last = first; last < layers; ++last) {
      for (int mesh = 0; mesh < static_cast<int>(meshes.size()); ++mesh) {
        for (int c = 0; c < 2; ++c) {
          table.successors(first, last, mesh, c) = static_cast<int>(random() % 5) - 1;
        }
      }
    }
  }
  return table;
}

}  // namespace

TEST_CASE("the tensor of Alpa's own test has its optimum") {
  // tests/pipeline_parallel/test_stage_construction.py draws the costs of 8 layers on 1, 2, 4 and 8
  // devices in 5 configurations with numpy's seed 42; the optimum by exhaustive enumeration.
  std::mt19937 random(42);
  StageTable table = random_table(random, 8, {1, 2, 4, 8}, 5);
  CHECK(table.cost(0, 0, 0, 0) == 0.3745401188473625);
  CHECK(table.cost(7, 7, 3, 4) == 0.49888815345135606);
  const auto found = best_stages(table, 8, 16);
  REQUIRE(found);
  CHECK(found->total == doctest::Approx(0.295285058257).epsilon(1e-10));
  REQUIRE(found->stages.size() == 2);
  const StageChoice first{0, 3, 2, 2, table.cost(0, 3, 2, 2)};
  const StageChoice second{4, 7, 2, 4, table.cost(4, 7, 2, 4)};
  CHECK(found->stages[0] == first);
  CHECK(found->stages[1] == second);
  CHECK(first.cost == doctest::Approx(0.005522).epsilon(1e-4));
  CHECK(second.cost == doctest::Approx(0.018110).epsilon(1e-4));
  // Alpa's loop tries 21 of 1,280 limits, in ascending order until limit x 16 exceeds the best.
  CHECK(found->tried <= 21);
}

TEST_CASE("the program equals brute force, memory included") {
  std::mt19937 random(7);
  int possible = 0;
  for (int round = 0; round < test::rounds(100); ++round) {
    const StageTable table = tight_table(random);
    const int devices = 1 + static_cast<int>(random() % 8);
    const int micro_batches = 1 + static_cast<int>(random() % 40);
    const auto found = best_stages(table, devices, micro_batches);
    const auto expected = Brute(table, devices, micro_batches).best();
    REQUIRE(found.has_value() == expected.has_value());
    if (!found) continue;
    ++possible;
    CHECK(found->total == doctest::Approx(*expected).epsilon(1e-9));
  }
  CHECK(possible > test::rounds(50));
}

TEST_CASE("a gap is a bound on what is lost") {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    const StageTable table = random_table(random, 6, {1, 2, 4}, 2);
    const double exact = best_stages(table, 8, 16)->total;
    const auto near = best_stages(table, 8, 16, 0.05);
    CHECK(near->total <= exact + 0.05);
    CHECK(near->tried <= best_stages(table, 8, 16)->tried);
  }
}

TEST_CASE("more memory or one more sub-mesh is never slower") {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    StageTable table = tight_table(random);
    const int layers = table.layers();
    const auto before = best_stages(table, 8, 16);
    StageTable more(layers, {1, 2, 4, 8, 3}, 2);
    for (int first = 0; first < layers; ++first) {
      for (int last = first; last < layers; ++last) {
        for (int c = 0; c < 2; ++c) {
          more.cost(first, last, 4, c) = unit(random);
          for (int mesh = 0; mesh < static_cast<int>(table.devices().size()); ++mesh) {
            more.cost(first, last, mesh, c) = table.cost(first, last, mesh, c);
            more.successors(first, last, mesh, c) = table.successors(first, last, mesh, c);
            table.successors(first, last, mesh, c) += 1;
          }
        }
      }
    }
    if (!before) continue;
    CHECK(best_stages(table, 8, 16)->total <= before->total);
    CHECK(best_stages(more, 8, 16)->total <= before->total);
  }
}

TEST_CASE("with many micro-batches the longest stage is all that counts") {
  std::mt19937 random(5);
  const StageTable table = random_table(random, 6, {1, 2, 4}, 2);
  constexpr int kMany = 100'000'000;
  double shortest = StageTable::kImpossible;  // of the longest stages, with total / B alone
  for (const int micro_batches : {kMany, kMany / 10}) {
    const auto found = best_stages(table, 8, micro_batches);
    double longest = 0.0;
    for (const StageChoice& stage : found->stages) longest = std::max(longest, stage.cost);
    CHECK(found->total / micro_batches == doctest::Approx(longest).epsilon(1e-5));
    shortest = std::min(shortest, longest);
    CHECK(longest == shortest);
  }
}

TEST_CASE("what cannot be placed has no partition") {
  StageTable table(3, {2}, 1);
  CHECK_FALSE(best_stages(table, 2, 4));  // nothing is possible
  for (int first = 0; first < 3; ++first) {
    for (int last = first; last < 3; ++last) table.cost(first, last, 0, 0) = 1.0;
  }
  CHECK(best_stages(table, 2, 4)->stages.size() == 1);
  CHECK_FALSE(best_stages(table, 3, 4));  // sub-meshes of two cannot cover three
  CHECK_FALSE(best_stages(table, 8, 4));  // four stages of three layers
}

}  // namespace plansearch::stage_dp_test
