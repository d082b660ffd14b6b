// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

#include <doctest/doctest.h>

#include "pipeline_support.hpp"
#include "schedule/program/lowering.hpp"
#include "support/rounds.hpp"
#include "support/schedules.hpp"

namespace plansearch::testing::simulator_test {
namespace {

Ticks makespan_of(const PipelineShape& shape, UniformTimes times) {
  PipelineSimulator simulator;
  return simulator.run(shape, uniform_durations(shape, times).view()).makespan;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("1F1B and GPipe of equal stages take (m + p - 1) (F + B)") {
    struct Row {
      int stages, micro_batches;
      Ticks expected;
    };
    for (const Row& row : {Row{4, 8, 33}, Row{4, 16, 57}, Row{8, 32, 117}, Row{1, 5, 15}}) {
      for (const ScheduleId schedule : {test::kGPipe, kDefaultSchedule}) {
        const PipelineShape shape{schedule, row.stages, row.micro_batches};
        CHECK(makespan_of(shape, {1, 2, 0}) == row.expected);
      }
    }
  }

  // 28.5, 27, 50.25 and 58.5 units of a device-stage, in ticks of 1 / chunks of it.
  TEST_CASE("interleaved 1F1B of equal stages takes m (F + B) + (p - 1) (F + B) / v") {
    struct Row {
      int stages, micro_batches, chunks;
      Ticks expected;
    };
    for (const Row& row :
         {Row{4, 8, 2, 57}, Row{4, 8, 3, 81}, Row{4, 16, 4, 201}, Row{8, 16, 2, 117}}) {
      const PipelineShape shape{test::kInterleaved, row.stages, row.micro_batches, row.chunks};
      CHECK(makespan_of(shape, {1, 2, 0}) == row.expected);
    }
  }

  TEST_CASE("transfers cost 1F1B 2c((p-1)m/p + p-2) where p divides m") {
    for (const int p : {2, 3, 4, 5, 6, 8}) {
      for (int m = p; m <= 64; m += p) {
        for (const Ticks backward : {20, 30}) {
          for (const Ticks c : {1, 5, 10}) {
            const PipelineShape shape{kDefaultSchedule, p, m};
            CHECK(makespan_of(shape, {10, backward, c}) ==
                  (m + p - 1) * (10 + backward) + 2 * c * ((p - 1) * (m / p) + p - 2));
          }
        }
      }
    }
  }

  TEST_CASE("transfers cost 1F1B of 4 stages 18c for 9 and for 10 micro-batches") {
    for (const int m : {9, 10}) {
      const PipelineShape shape{kDefaultSchedule, 4, m};
      CHECK(makespan_of(shape, {10, 20, 1}) - makespan_of(shape, {10, 20, 0}) == 18);
    }
  }

  TEST_CASE("transfers cost GPipe 2c(p-1)") {
    for (const int p : {2, 4, 7}) {
      const PipelineShape shape{test::kGPipe, p, 12};
      CHECK(makespan_of(shape, {10, 20, 3}) == (12 + p - 1) * 30 + 2 * 3 * (p - 1));
    }
  }

  // Two stages, two micro-batches, F 10, B 20, c 4: device 0 runs F0 0-10, F1 10-20; F0 arrives at
  // 14, device 1 runs F0 14-24, B0 24-44, F1 44-54, B1 54-74; B0 arrives at 48: B0 48-68; B1
  // arrives at 78: B1 78-98. Device 0 waits 28 for B0, of which 4 for its transfer, 10 for B1.
  TEST_CASE("a pipeline by hand: idle time is bubble and exposed transfers") {
    const PipelineShape shape{kDefaultSchedule, 2, 2};
    PipelineSimulator simulator;
    const auto times = uniform_durations(shape, {10, 20, 4});
    const PipelineResult& result = simulator.run(shape, times.view());
    CHECK(result.makespan == 98);
    CHECK(result.devices == std::vector<DeviceUse>{{0, 98, 60, 8}, {14, 74, 60, 4}});
    CHECK(result.bubble(0) == 30);
    CHECK(result.bubble(1) == 34);
    CHECK(result.span() == 98);
  }

  TEST_CASE("long steps are skipped, not simulated") {
    const PipelineShape shape{kDefaultSchedule, 8, 100'000};
    PipelineSimulator simulator;
    const auto times = uniform_durations(shape, {10, 20, 1});
    const PipelineResult& result = simulator.run(shape, times.view());
    CHECK(result.micro_batches_simulated < 100);
    CHECK(result.makespan == 100'007 * 30 + 2 * (7 * 12'500 + 6));
  }

  TEST_CASE("weight gradients run with the backward") {
    const PipelineShape shape{kDefaultSchedule, 3, 6};
    auto times = uniform_durations(shape, {10, 12, 3});
    times.weight_gradient.assign(3, 8);
    PipelineSimulator simulator;
    CHECK(simulator.run(shape, times.view()).makespan == makespan_of(shape, {10, 20, 3}));
    CHECK(simulator.run(shape, times.view()).devices[1].busy == 6 * 30);
  }
}

TEST_SUITE("property") {
  TEST_CASE("skipping the steady rounds changes nothing") {
    Dice dice(1);
    PipelineSimulator fast, full;
    double simulated = 0.0;
    for (int i = 0; i < test::rounds(500); ++i) {
      const PipelineShape shape = random_shape(dice, 30);
      const auto times = random_durations(dice, shape, i % 2 == 0 ? 60 : 1'000'000);
      const PipelineResult& a = fast.run(shape, times.view());
      const PipelineResult& b = full.run(shape, times.view(), SteadyState::SimulateAll);
      INFO(describe(shape));
      CHECK(a.makespan == b.makespan);
      CHECK(a.devices == b.devices);
      simulated += static_cast<double>(a.micro_batches_simulated) / shape.micro_batches;
    }
    CHECK(simulated / 500 < 0.5);
  }

  TEST_CASE("nor where links are about as slow as the stages and fall behind bit by bit") {
    Dice dice(7);
    PipelineSimulator fast, full;
    for (int i = 0; i < test::rounds(3000); ++i) {
      PipelineShape shape = random_shape(dice, 10);
      shape.stages = std::min(shape.stages, 4);
      if (shape.chunks > 1) shape.micro_batches = shape.stages * dice.between(1, 30);
      if (obstacle_of(shape)) continue;
      auto times = uniform_durations(shape, {});
      for (auto* row : {&times.forward, &times.backward}) {
        for (Ticks& time : *row) time = dice.ticks(1, 12);
      }
      for (auto* row : {&times.activation_transfer, &times.gradient_transfer}) {
        for (Ticks& time : *row) time = dice.ticks(0, 16);
      }
      const PipelineResult& a = fast.run(shape, times.view());
      const PipelineResult& b = full.run(shape, times.view(), SteadyState::SimulateAll);
      INFO(describe(shape));
      REQUIRE(a.makespan == b.makespan);
      REQUIRE(a.devices == b.devices);
    }
  }

  TEST_CASE("the rounds give what the generated order gives") {
    Dice dice(2);
    PipelineSimulator simulator;
    for (int i = 0; i < test::rounds(300); ++i) {
      const PipelineShape shape = random_shape(dice, 5);
      const auto times = random_durations(dice, shape, 100);
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const auto plain = PlainSimulator(order, times.view(), shape.transfers).run();
      const PipelineResult& result = simulator.run(shape, times.view());
      INFO(describe(shape));
      REQUIRE(plain);
      CHECK(result.makespan == plain->makespan);
      CHECK(result.devices == plain->devices);
    }
  }

  TEST_CASE("the task graph gives what the rounds give") {
    Dice dice(3);
    PipelineSimulator simulator;
    TaskSimulator tasks;
    for (int i = 0; i < test::rounds(200); ++i) {
      const PipelineShape shape = random_shape(dice, 4);
      const auto times = random_durations(dice, shape, 100);
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const SendPolicy sends = shape.transfers == TransferMode::Blocking ? SendPolicy::Blocking
                                                                         : SendPolicy::Asynchronous;
      const Program program = lower(order, {sends});
      const auto built = build_task_graph(program);
      INFO(describe(shape));
      REQUIRE(std::holds_alternative<TaskGraph>(built));
      tasks.run(std::get<TaskGraph>(built), duration_table(times.view(), order.weight_gradients));
      CHECK(tasks.makespan() == simulator.run(shape, times.view()).makespan);
    }
  }

  TEST_CASE("faster pieces never make a pipeline slower, and no device works less than it must") {
    Dice dice(4);
    PipelineSimulator simulator;
    for (int i = 0; i < test::rounds(200); ++i) {
      const PipelineShape shape = random_shape(dice, 6);
      auto times = random_durations(dice, shape, 1000);
      const PipelineResult before = simulator.run(shape, times.view());
      for (std::size_t d = 0; d < before.devices.size(); ++d) {
        CHECK(before.devices[d].exposed_transfer >= 0);
        CHECK(before.bubble(d) >= 0);
      }
      auto& row = dice.between(0, 1) == 0 ? times.forward : times.backward;
      row[static_cast<std::size_t>(dice.between(0, shape.virtual_stages() - 1))] /= 2;
      INFO(describe(shape));
      CHECK(simulator.run(shape, times.view()).makespan <= before.makespan);
    }
  }

  TEST_CASE("scaling all durations scales the makespan") {
    Dice dice(5);
    PipelineSimulator simulator;
    for (int i = 0; i < test::rounds(100); ++i) {
      const PipelineShape shape = random_shape(dice, 6);
      auto times = random_durations(dice, shape, 1000);
      const Ticks before = simulator.run(shape, times.view()).makespan;
      for (auto* row : {&times.forward, &times.backward, &times.activation_transfer,
                        &times.gradient_transfer}) {
        for (Ticks& time : *row) time *= 7;
      }
      CHECK(simulator.run(shape, times.view()).makespan == 7 * before);
    }
  }

  TEST_CASE("a used simulator gives what a fresh one gives") {
    Dice dice(6);
    PipelineSimulator used;
    for (int i = 0; i < test::rounds(100); ++i) {
      const PipelineShape shape = random_shape(dice, 6);
      const auto times = random_durations(dice, shape, 1000);
      PipelineSimulator fresh;
      const PipelineResult& a = used.run(shape, times.view());
      const PipelineResult& b = fresh.run(shape, times.view());
      CHECK(a.makespan == b.makespan);
      CHECK(a.devices == b.devices);
    }
  }
}

}  // namespace plansearch::testing::simulator_test
