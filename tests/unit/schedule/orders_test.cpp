// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "pipeline_support.hpp"
#include "schedule/order/compute_order.hpp"
#include "schedule/table.hpp"
#include "support/schedules.hpp"

namespace plansearch::testing::orders_test {
namespace {

/// "F0 F1 B0 ..." with the chunk after a slash.
std::string written(const std::vector<ComputeStep>& steps) {
  std::string text;
  for (const ComputeStep& step : steps) {
    if (!text.empty()) text += ' ';
    text += step.phase == Phase::Forward ? 'F' : 'B';
    text += std::to_string(step.micro_batch) + "/" + std::to_string(step.chunk);
  }
  return text;
}

std::string forwards_of(const std::vector<ComputeStep>& steps) {
  std::vector<ComputeStep> forwards;
  for (const ComputeStep& step : steps) {
    if (step.phase == Phase::Forward) forwards.push_back(step);
  }
  return written(forwards);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("GPipe runs all forwards, then all backwards, on every device") {
    const auto order = order_of({test::kGPipe, 2, 3});
    for (const auto& device : order.devices) {
      CHECK(written(device) == "F0/0 F1/0 F2/0 B0/0 B1/0 B2/0");
    }
  }

  TEST_CASE("1F1B runs p - 1 - r forwards ahead") {
    const auto order = order_of({kDefaultSchedule, 3, 4});
    CHECK(written(order.devices[0]) == "F0/0 F1/0 F2/0 B0/0 F3/0 B1/0 B2/0 B3/0");
    CHECK(written(order.devices[1]) == "F0/0 F1/0 B0/0 F2/0 B1/0 F3/0 B2/0 B3/0");
    CHECK(written(order.devices[2]) == "F0/0 B0/0 F1/0 B1/0 F2/0 B2/0 F3/0 B3/0");
  }

  TEST_CASE("1F1B with fewer micro-batches than stages is GPipe on the first device") {
    const auto order = order_of({kDefaultSchedule, 4, 2});
    CHECK(written(order.devices[0]) == "F0/0 F1/0 B0/0 B1/0");
    CHECK(written(order.devices[3]) == "F0/0 B0/0 F1/0 B1/0");
  }

  TEST_CASE("interleaved 1F1B: two stages, two chunks") {
    const auto order = order_of({test::kInterleaved, 2, 4, 2});
    CHECK(written(order.devices[0]) ==
          "F0/0 F1/0 F0/1 F1/1 F2/0 B0/1 F3/0 B1/1 F2/1 B0/0 F3/1 B1/0 B2/1 B3/1 B2/0 B3/0");
    CHECK(written(order.devices[1]) ==
          "F0/0 F1/0 F0/1 B0/1 F1/1 B1/1 F2/0 B0/0 F3/0 B1/0 F2/1 B2/1 F3/1 B3/1 B2/0 B3/0");
  }

  // Megatron's own example: groups of 3, 5 micro-batches, 2 chunks.
  TEST_CASE("the last group of micro-batches may be shorter") {
    PipelineShape shape{test::kInterleaved, 2, 5, 2};
    shape.group = 3;
    REQUIRE_FALSE(obstacle_of(shape));
    const auto order = order_of(shape);
    for (const auto& device : order.devices) {
      CHECK(forwards_of(device) == "F0/0 F1/0 F2/0 F0/1 F1/1 F2/1 F3/0 F4/0 F3/1 F4/1");
    }
  }

  TEST_CASE("shapes that cannot run say why") {
    const auto obstacle = [](PipelineShape shape) {
      const auto made = make_order(shape);
      const auto* infeasible = std::get_if<Infeasible>(&made);
      REQUIRE(infeasible != nullptr);
      CHECK_FALSE(infeasible->detail.empty());
      return infeasible->obstacle;
    };
    const ScheduleId GPipe = test::kGPipe, OneFOneB = kDefaultSchedule,
                     Interleaved = test::kInterleaved;
    CHECK(obstacle({Interleaved, 4, 6, 2}) == Obstacle::ScheduleNeedsMicroBatches);
    CHECK(obstacle({Interleaved, 4, 3, 2}) == Obstacle::ScheduleNeedsMicroBatches);
    CHECK(obstacle({Interleaved, 4, 8, 2, 1, 3}) == Obstacle::ScheduleNeedsMicroBatches);
    CHECK(obstacle({Interleaved, 4, 8, 2, 1, 6}) == Obstacle::ScheduleNeedsMicroBatches);
    CHECK(obstacle({Interleaved, 4, 8, 1}) == Obstacle::NoSuchFeature);
    CHECK(obstacle({Interleaved, 1, 8, 2}) == Obstacle::NoSuchFeature);
    CHECK(obstacle({GPipe, 4, 8, 2}) == Obstacle::NoSuchFeature);
    CHECK(obstacle({OneFOneB, 4, 8, 2}) == Obstacle::NoSuchFeature);
    CHECK(obstacle({OneFOneB, 4, 8, 1, 1, 4}) == Obstacle::NoSuchFeature);
    CHECK(obstacle({OneFOneB, 4, 0}) == Obstacle::ScheduleNeedsMicroBatches);
    CHECK(obstacle({OneFOneB, 0, 4}) == Obstacle::NoSuchFeature);
    CHECK_FALSE(obstacle_of({Interleaved, 4, 10, 2, 1, 6}));
  }

  TEST_CASE("an order that lacks, repeats or invents a piece is told so") {
    auto order = order_of({kDefaultSchedule, 2, 3});
    CHECK(order_faults(order).empty());
    order.devices[0][1] = order.devices[0][0];
    order.devices[1].push_back({0, 7, Phase::Forward});
    CHECK(order_faults(order) ==
          std::vector<std::string>{"F0 of chunk 0 on device 0 is there 2 times",
                                   "F1 of chunk 0 on device 0 is missing",
                                   "F7 of chunk 0 on device 1 does not belong there"});
  }
}

TEST_SUITE("property") {
  TEST_CASE("every order is complete and runs to its end") {
    for (const ScheduleId schedule : {test::kGPipe, kDefaultSchedule, test::kInterleaved}) {
      for (int p = 1; p <= 8; ++p) {
        for (int m = 1; m <= 32; ++m) {
          for (int v = 1; v <= 4; ++v) {
            for (int group = p; group <= (v > 1 ? p + 3 : p); ++group) {
              PipelineShape shape{schedule, p, m, v};
              if (group != p) shape.group = group;
              const auto made = make_order(shape);
              const auto* order = std::get_if<ComputeOrder>(&made);
              if (order == nullptr) continue;
              INFO(describe(shape) << ", group " << group);
              const auto times = uniform_durations(shape, {1, 2, 0});
              const auto run = PlainSimulator(*order, times.view(), shape.transfers).run();
              REQUIRE(run);
              REQUIRE(order_faults(*order).empty());
              if (group == p) REQUIRE(run->makespan == (m * v + p - 1) * 3);
            }
          }
        }
      }
    }
  }
}

}  // namespace plansearch::testing::orders_test
