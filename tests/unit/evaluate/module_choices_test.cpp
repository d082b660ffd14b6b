// SPDX-License-Identifier: Apache-2.0
// Sets of modules worth recomputing, against all sets.
#include "evaluate/block/module_choices.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

#include "plansearch/network.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::module_choices_test {
namespace {

constexpr auto kMoe = static_cast<std::uint8_t>(1U << static_cast<unsigned>(LayerModule::Moe));

/// Parts that come back when any module of a random few runs again; times add up over modules.
ModuleBlock random_block(std::mt19937& random, const std::vector<std::uint8_t>& sets) {
  const auto real = [&] { return std::uniform_real_distribution(0.1, 1.0)(random); };
  ModuleBlock block;
  block.copies = 1.0 + static_cast<double>(random() % 5);
  std::vector<ModuleSets> returned;
  std::vector<Bytes> bytes;
  for (int part = 0; part < 12; ++part) {
    const std::uint8_t by = random() & random() & 0x7F;
    ModuleSets back;
    for (const std::uint8_t set : sets) back.set(set, (set & by) != 0);
    returned.push_back(back);
    bytes.push_back(Bytes(1e6 * real()));
  }
  block.parts = grouped_parts(returned, bytes);
  std::array<double, kLayerModuleCount> each{};
  for (double& time : each) time = 1e-3 * real();
  for (const std::uint8_t set : sets) {
    Seconds time;
    for (std::size_t m = 0; m < each.size(); ++m) {
      if ((set >> m & 1U) != 0) time += Seconds(each[m]);
    }
    block.times.push_back(time);
  }
  return block;
}

Bytes returned_by(const ModuleBlock& block, std::uint8_t set) {
  Bytes sum;
  for (std::size_t g = 0; g < block.parts.bytes.size(); ++g) {
    if (block.parts.returned[g].test(set)) sum += block.parts.bytes[g];
  }
  return sum;
}

TEST_SUITE("unit") {
  TEST_CASE("the cheapest set that gives enough back in every stage is one of the choices") {
    std::mt19937 random(7);
    std::vector<std::uint8_t> sets;
    for (unsigned set = 1; set < kFewestModules; ++set) {
      if ((set & kMoe) == 0) sets.push_back(static_cast<std::uint8_t>(set));
    }
    int solved = 0;
    for (int i = 0; i < 300; ++i) {
      std::vector<ModuleBlock> blocks;
      for (int b = 0; b < 3; ++b) blocks.push_back(random_block(random, sets));
      const ModuleChoices choices = choose_modules(sets, blocks);
      CHECK(choices.sets.size() <= sets.size());
      // Stages hold copies of blocks; each needs so many bytes back.
      const auto share = [&] { return std::uniform_real_distribution(0.0, 1.0)(random); };
      std::vector<std::array<double, 3>> stages(2);
      for (auto& stage : stages) stage = {share() * 8, share() * 8, share() * 8};
      const auto has_room = [&](std::uint8_t set, double part) {
        return std::all_of(stages.begin(), stages.end(), [&](const auto& stage) {
          Bytes back;
          Bytes most;
          for (std::size_t b = 0; b < 3; ++b) {
            back += returned_by(blocks[b], set) * stage[b];
            most += returned_by(blocks[b], kFewestModules - 1 - kMoe) * stage[b];
          }
          return back >= most * part;
        });
      };
      const double part = share();
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t s = 0; s < sets.size(); ++s) {
        if (!has_room(sets[s], part)) continue;
        double time = 0.0;
        for (const ModuleBlock& block : blocks) time += block.times[s].value() * block.copies;
        least = std::min(least, time);
      }
      const auto chosen = std::find_if(choices.sets.begin(), choices.sets.end(),
                                       [&](const auto& c) { return has_room(c.modules, part); });
      const bool possible = least < std::numeric_limits<double>::infinity();
      REQUIRE((chosen != choices.sets.end()) == possible);
      if (!possible) continue;
      ++solved;
      CHECK(chosen->time.value() == doctest::Approx(least));
    }
    CHECK(solved > 200);
  }

  TEST_CASE("no module stands in a set that runs its operators anyway") {
    test::ToyOptions options;
    options.experts = 4;
    const Network network = *test::toy_problem(options).network;
    const auto sets = sets_of_modules(network, modules_of(network));
    const auto has = [&](LayerModules set) {
      return std::find(sets.begin(), sets.end(), set.to_ulong()) != sets.end();
    };
    const LayerModules activation = bit_of(LayerModule::MoeActivation);
    CHECK(has(activation));
    CHECK(has(bit_of(LayerModule::Moe)));
    CHECK(has(activation | bit_of(LayerModule::LayerNorm)));
    CHECK_FALSE(has(activation | bit_of(LayerModule::Moe)));  // experts are part of it
    CHECK_FALSE(has(bit_of(LayerModule::MlaUpProjection)));   // it has none
  }

  TEST_CASE(
      "exchanges make moe the last resort, and it beats nothing that orders in pairs may run") {
    const std::uint8_t norm = 1U << static_cast<unsigned>(LayerModule::LayerNorm);
    const std::vector<std::uint8_t> sets{norm, kMoe};
    ModuleBlock block;
    block.copies = 1.0;
    ModuleSets both;
    both.set(norm).set(kMoe);
    ModuleSets moe;
    moe.set(kMoe);
    block.parts = grouped_parts({both, moe}, {Bytes(1), Bytes(2)});
    block.times = {Seconds(2), Seconds(1)};
    const ModuleChoices choices = choose_modules(sets, {block});
    REQUIRE(choices.sets.size() == 2);
    CHECK(choices.sets.front().modules == norm);
    CHECK(choices.sets.back().blocks.front().returned == Bytes(3));
    CHECK(choices.sets.back().blocks.front().again == Bytes(3));
  }
}

}  // namespace
}  // namespace plansearch::module_choices_test
