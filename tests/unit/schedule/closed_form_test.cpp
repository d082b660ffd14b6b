// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulation/closed_form.hpp"
#include "schedule/table.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "pipeline_support.hpp"
#include "support/rounds.hpp"
#include "support/schedules.hpp"
#include "uniform.hpp"

namespace plansearch::testing::closed_form_test {
namespace {

Ticks simulated(const PipelineShape& shape, const PipelineDurations& times) {
  PipelineSimulator simulator;
  return simulator.run(shape, times.view()).makespan;
}

/// Stages of different size with the same share of backward.
PipelineDurations proportional(Dice& dice, const PipelineShape& shape, Ticks ratio) {
  PipelineDurations times = uniform_durations(shape, {});
  for (std::size_t k = 0; k < times.forward.size(); ++k) {
    times.forward[k] = dice.ticks(1, 20);
    times.backward[k] = ratio * times.forward[k];
  }
  return times;
}

/// sum t + (m - 1) max t over stages with t forward + backward (Zheng et al., OSDI 2022, eq. 2).
Ticks alpa_objective(const PipelineShape& shape, const PipelineDurations& times) {
  Ticks sum = 0;
  Ticks longest = 0;
  for (std::size_t k = 0; k < times.forward.size(); ++k) {
    const Ticks t = times.forward[k] + times.backward[k];
    sum += t;
    longest = std::max(longest, t);
  }
  return sum + (shape.micro_batches - 1) * longest;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("bubble share of equal stages") {
    CHECK(uniform_bubble_fraction({kDefaultSchedule, 4, 8}) == doctest::Approx(3.0 / 11));
    CHECK(uniform_bubble_fraction({test::kInterleaved, 4, 8, 2}) == doctest::Approx(3.0 / 19));
    CHECK(uniform_bubble_fraction({test::kGPipe, 1, 8}) == 0.0);
  }

  TEST_CASE("no closed form is claimed where none is known") {
    const ScheduleId OneFOneB = kDefaultSchedule, Interleaved = test::kInterleaved;
    CHECK_FALSE(uniform_makespan({Interleaved, 4, 8, 2}, {10, 20, 1}));
    CHECK_FALSE(uniform_makespan({OneFOneB, 4, 9}, {10, 20, 1}));
    CHECK_FALSE(uniform_makespan({OneFOneB, 4, 8}, {10, 20, 11}));
    CHECK_FALSE(uniform_makespan({OneFOneB, 4, 8, 1, 1, {}, TransferMode::Blocking}, {10, 20, 1}));
    CHECK(uniform_makespan({OneFOneB, 4, 9}, {10, 20, 0}) == 360);
  }

  // Three stages, 4 micro-batches: head 3 + work 4 (5 + 10) + tail 6 of the second one.
  TEST_CASE("the busiest device by hand") {
    const PipelineShape shape{*find_schedule("eager-1f1b"), 3, 4};
    PipelineDurations times = uniform_durations(shape, {});
    times.forward = {3, 5, 1};
    times.backward = {6, 10, 2};
    CHECK(order_bound(shape, times.view()) == 69);
    times.activation_transfer = {2, 0};
    times.gradient_transfer = {1, 0};
    CHECK(order_bound(shape, times.view()) == 72);
  }

  // One micro-batch: nothing but its way there and back.
  TEST_CASE("the critical path bounds a step of one micro-batch") {
    const PipelineShape shape{kDefaultSchedule, 3, 1};
    const auto times = uniform_durations(shape, {10, 20, 4});
    CHECK(order_bound(shape, times.view()) == 3 * 30 + 4 * 4);
    CHECK(simulated(shape, times) == 3 * 30 + 4 * 4);
  }

  TEST_CASE("weight gradients that may run any time do not lengthen the tail of the bound") {
    const PipelineShape shape{*find_schedule("zb-h1"), 2, 3};
    auto times = uniform_durations(shape, {10, 10, 0});
    times.weight_gradient.assign(2, 10);
    // Device 1: head 10, work 90; its last weight gradients can hide the tail of 10.
    CHECK(order_bound(shape, times.view()) == 100);
    times.weight_gradient.assign(2, 0);
    CHECK(order_bound(shape, times.view()) == 80);
  }
}

TEST_SUITE("property") {
  TEST_CASE("equal stages: the closed form is the simulation") {
    for (const ScheduleId schedule : {test::kGPipe, kDefaultSchedule, test::kInterleaved}) {
      for (const int p : {1, 2, 3, 4, 5, 6, 8}) {
        for (int m = 1; m <= 40; ++m) {
          for (const Ticks c : {0, 1, 7, 10, 40}) {
            for (const int v : {1, 2, 3}) {
              const PipelineShape shape{schedule, p, m, v};
              if (obstacle_of(shape)) continue;
              const auto expected = uniform_makespan(shape, {10, 20, c});
              if (!expected) continue;
              INFO(describe(shape) << ", c " << c);
              REQUIRE(simulated(shape, uniform_durations(shape, {10, 20, c})) == *expected);
            }
          }
        }
      }
    }
  }

  TEST_CASE("equal stages without transfers: the bound is the makespan") {
    for (const int p : {2, 4, 8}) {
      for (const int v : {1, 2, 4}) {
        const PipelineShape shape{v > 1 ? test::kInterleaved : kDefaultSchedule, p, 4 * p, v};
        const auto times = uniform_durations(shape, {10, 20, 0});
        CHECK(order_bound(shape, times.view()) == simulated(shape, times));
        CHECK(estimate_makespan(shape, times.view()) == simulated(shape, times));
      }
    }
  }

  TEST_CASE("bounds never exceed the simulation") {
    Dice dice(51);
    for (int i = 0; i < test::rounds(3000); ++i) {
      PipelineShape shape = random_shape(dice, 8);
      const auto times = random_durations(dice, shape, i % 2 == 0 ? 10 : 1000);
      const Ticks makespan = simulated(shape, times);
      const Ticks bound = order_bound(shape, times.view());
      INFO(describe(shape));
      REQUIRE(bound <= makespan);
      REQUIRE(estimate_makespan(shape, times.view()) >= bound);
    }
  }

  // By hand: forwards of 10 and 10, input gradients of 20 and 10, nothing sent in time: the first
  // stage waits 20 between its forward and its gradient and runs 50 in all; the second works 3
  // x 40.
  TEST_CASE("the bound of a span is the busiest device, or the way there and back") {
    PipelineShape shape{*find_schedule("zb-h2"), 2, 3};
    PipelineDurations times = uniform_durations(shape, {});
    times.forward = {10, 10};
    times.backward = {20, 10};
    times.weight_gradient = {5, 20};
    CHECK(span_bound(shape, times.view()) == 120);
    shape.micro_batches = 1;
    CHECK(span_bound(shape, times.view()) == 50);
    times.activation_transfer = {3};
    times.gradient_transfer = {4};
    CHECK(span_bound(shape, times.view()) == 57);
  }

  TEST_CASE("no span is shorter than its bound, whatever the schedule") {
    Dice dice(56);
    int above = 0;
    for (int i = 0; i < test::rounds(2000); ++i) {
      PipelineShape shape = random_shape(dice, 8);
      const auto times = random_durations(dice, shape, i % 2 == 0 ? 10 : 1000);
      PipelineSimulator simulator;
      const PipelineResult& result = simulator.run(shape, times.view());
      const Ticks bound = span_bound(shape, times.view());
      INFO(describe(shape));
      REQUIRE(bound <= result.span());
      above += bound > order_bound(shape, times.view()) ? 1 : 0;
    }
    CHECK(above == 0);  // a span may be shorter than every makespan
  }

  TEST_CASE("bounds hold for groups of micro-batches of any legal size") {
    Dice dice(52);
    for (int i = 0; i < test::rounds(300); ++i) {
      PipelineShape shape{test::kInterleaved, dice.between(2, 5), 0, dice.between(2, 3)};
      shape.group = shape.stages + dice.between(0, 3);
      shape.micro_batches = *shape.group + dice.between(0, 20);
      if (obstacle_of(shape)) continue;
      const auto times = random_durations(dice, shape, 100);
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const auto run = PlainSimulator(order, times.view(), shape.transfers).run();
      REQUIRE(run);
      INFO(describe(shape) << ", group " << *shape.group);
      REQUIRE(order_bound(shape, times.view()) <= run->makespan);
    }
  }

  TEST_CASE("estimates are close for stages that differ a little") {
    Dice dice(53);
    double error = 0.0, worst = 0.0;
    for (int i = 0; i < test::rounds(1000); ++i) {
      PipelineShape shape = random_shape(dice, 12);
      auto times = uniform_durations(shape, {10'000, 20'000, dice.ticks(0, 5000)});
      for (auto* row : {&times.forward, &times.backward}) {
        for (Ticks& time : *row) time += dice.ticks(0, time / 10);
      }
      const auto exact = static_cast<double>(simulated(shape, times));
      const double off =
          std::abs(static_cast<double>(estimate_makespan(shape, times.view())) / exact - 1.0);
      error += off / 1000;
      worst = std::max(worst, off);
    }
    CHECK(error < 0.003);
    CHECK(worst < 0.06);
  }

  TEST_CASE(
      "Alpa's objective: GPipe's makespan and an upper bound of 1F1B for proportional stages") {
    Dice dice(54);
    int below = 0;
    double lowest = 1.0;
    for (int i = 0; i < test::rounds(400); ++i) {
      PipelineShape shape{test::kGPipe, dice.between(2, 6), 0};
      shape.micro_batches = dice.between(5, 4 * shape.stages + 5);
      const auto times = proportional(dice, shape, dice.between(1, 3));
      const Ticks objective = alpa_objective(shape, times);
      REQUIRE(simulated(shape, times) == objective);
      shape.schedule = kDefaultSchedule;
      const Ticks makespan = simulated(shape, times);
      REQUIRE(makespan <= objective);
      below += makespan < objective ? 1 : 0;
      lowest = std::min(lowest, static_cast<double>(makespan) / static_cast<double>(objective));
    }
    CHECK(below > test::rounds(200));
    CHECK(lowest < 0.9);
    CHECK(lowest > 0.7);
  }

  TEST_CASE("GPipe of any stages is the sum and the slowest, forward and backward apart") {
    Dice dice(55);
    for (int i = 0; i < test::rounds(200); ++i) {
      const PipelineShape shape{test::kGPipe, dice.between(1, 6), dice.between(1, 30)};
      const auto times = random_durations(dice, shape, 50);
      REQUIRE(order_bound(shape, times.view()) == simulated(shape, times));
    }
  }
}

}  // namespace plansearch::testing::closed_form_test
