// SPDX-License-Identifier: Apache-2.0
#include "schedule/program/timeline.hpp"
#include "schedule/table.hpp"

#include <doctest/doctest.h>

#include "parse_grid.hpp"
#include "pipeline_support.hpp"
#include "plansearch/error.hpp"
#include "support/schedules.hpp"
#include "timeline_faults.hpp"

namespace plansearch::testing::timeline_test {
namespace {

Grid drawn(const PipelineShape& shape, UniformTimes times, Ticks slot = 1) {
  const auto order = std::get<ComputeOrder>(make_order(shape));
  const auto simulated = simulate_order(order, uniform_durations(shape, times).view());
  return make_grid(std::get<Timeline>(simulated), slot);
}

}  // namespace

TEST_SUITE("pipeline") {
  TEST_CASE("1F1B, 2 stages, 4 micro-batches") {
    const Grid grid = drawn({kDefaultSchedule, 2, 4}, {1, 2, 0});
    CHECK(to_text(grid) ==
          "stage 0 | F0 F1 .  .  B0 B0 F2 B1 B1 F3 B2 B2 .  B3 B3\n"
          "stage 1 | .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .  .\n");
  }

  TEST_CASE("GPipe, 2 stages, 3 micro-batches") {
    CHECK(drawn({test::kGPipe, 2, 3}, {1, 2, 0}) == parse_grid(R"(
      stage 0 | F0 F1 F2 .  .  .  B0 B0 B1 B1 B2 B2
      stage 1 | .  F0 F1 F2 B0 B0 B1 B1 B2 B2 .  . )"));
  }

  TEST_CASE("GPipe, 3 stages, 3 micro-batches") {
    CHECK(drawn({test::kGPipe, 3, 3}, {1, 1, 0}) == parse_grid(R"(
      stage 0 | F0 F1 F2 .  .  .  .  B0 B1 B2
      stage 1 | .  F0 F1 F2 .  .  B0 B1 B2 .
      stage 2 | .  .  F0 F1 F2 B0 B1 B2 .  . )"));
  }

  TEST_CASE("1F1B, 3 stages, 4 micro-batches") {
    CHECK(drawn({kDefaultSchedule, 3, 4}, {1, 1, 0}) == parse_grid(R"(
      stage 0 | F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
      stage 1 | .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .
      stage 2 | .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  . )"));
  }

  TEST_CASE("1F1B, 4 stages, 4 micro-batches") {
    CHECK(drawn({kDefaultSchedule, 4, 4}, {1, 1, 0}) == parse_grid(R"(
      stage 0 | F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3
      stage 1 | .  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3 .
      stage 2 | .  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .  .
      stage 3 | .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .  . )"));
  }

  TEST_CASE("interleaved, 2 stages, 4 micro-batches, 2 chunks") {
    CHECK(drawn({test::kInterleaved, 2, 4, 2}, {1, 1, 0}) == parse_grid(R"(
      stage 0 | F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a .   B2b .   B3b B2a B3a
      stage 1 | .   F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a . )"));
  }

  TEST_CASE("a transfer of half a slot shows when slots are halves") {
    CHECK(drawn({test::kGPipe, 2, 1}, {2, 2, 1}) == parse_grid(R"(
      stage 0 | F0 F0 .  .  .  .  .  .  B0 B0
      stage 1 | .  .  .  F0 F0 B0 B0 .  .  . )"));
  }

  TEST_CASE("the longest common slot") {
    const PipelineShape shape{kDefaultSchedule, 2, 4};
    const auto order = std::get<ComputeOrder>(make_order(shape));
    const auto times = uniform_durations(shape, {500, 1000, 0});
    CHECK(common_slot(std::get<Timeline>(simulate_order(order, times.view()))) == 500);
    CHECK(drawn(shape, {500, 1000, 0}, 500) == drawn(shape, {1, 2, 0}));
  }
}

TEST_SUITE("unit") {
  TEST_CASE("what is not a grid is refused with its place") {
    const auto place_of = [](std::string_view text) {
      try {
        static_cast<void>(parse_grid(text));
      } catch (const InputError& error) {
        return std::pair(error.where().line, error.where().column);
      }
      return std::pair(0, 0);
    };
    CHECK(place_of("stage 0 | F0 X1") == std::pair(1, 14));
    CHECK(place_of("stage 0 | F0\nstage 1 | F") == std::pair(2, 11));
    CHECK(place_of("\nF0 F1") == std::pair(2, 1));
    CHECK(place_of("stage 0 | F0ab") == std::pair(1, 11));
    CHECK(place_of("stage 0 | F-1") == std::pair(1, 11));
    CHECK(place_of("stage 0 | F99999999999") == std::pair(1, 11));
    CHECK(place_of("stage 0 | F1 . B1 W1c") == std::pair(0, 0));
  }

  TEST_CASE("a correct timeline has no faults, a wrong one is told what is wrong") {
    const PipelineShape shape{kDefaultSchedule, 2, 2};
    const auto order = std::get<ComputeOrder>(make_order(shape));
    const auto times = uniform_durations(shape, {10, 20, 5});
    const auto good = std::get<Timeline>(simulate_order(order, times.view()));
    CHECK(timeline_faults(order, times.view(), good).empty());

    Timeline early = good;  // device 1: F0 without waiting for its input
    auto& first = early.entries[4];
    first.start -= 1;
    first.end -= 1;
    CHECK(
        timeline_faults(order, times.view(), early) ==
        std::vector<std::string>{
            "F0 of chunk 0 on device 1 starts before F0 of chunk 0 on device 0 can have arrived"});

    Timeline twice = good;
    twice.entries[1].start = twice.entries[0].start;
    twice.entries[1].end = twice.entries[0].end;
    CHECK(timeline_faults(order, times.view(), twice) ==
          std::vector<std::string>{
              "F1 of chunk 0 on device 0 starts before F0 of chunk 0 on device 0 has ended"});

    Timeline shorter = good;
    shorter.entries.back().end -= 1;
    CHECK(timeline_faults(order, times.view(), shorter).front() ==
          "B1 of chunk 0 on device 1 has the wrong length");

    Timeline missing = good;
    missing.entries.pop_back();
    CHECK(timeline_faults(order, times.view(), missing) ==
          std::vector<std::string>{"B1 of chunk 0 on device 1 is missing"});
  }
}

TEST_SUITE("property") {
  TEST_CASE("every simulated timeline is valid and survives being drawn and read") {
    Dice dice(31);
    for (int i = 0; i < 150; ++i) {
      const PipelineShape shape = random_shape(dice, 3);
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const auto times = random_durations(dice, shape, 9);
      const SendPolicy sends = shape.transfers == TransferMode::Blocking ? SendPolicy::Blocking
                                                                         : SendPolicy::Asynchronous;
      const auto timeline =
          std::get<Timeline>(simulate_order(order, times.view(), {sends, std::nullopt}));
      INFO(describe(shape));
      CHECK(timeline_faults(order, times.view(), timeline).empty());
      const Grid grid = make_grid(timeline, 1);
      CHECK(parse_grid(to_text(grid)) == grid);
    }
  }
}

}  // namespace plansearch::testing::timeline_test
