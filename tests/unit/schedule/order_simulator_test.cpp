// SPDX-License-Identifier: Apache-2.0
// Every schedule of the table, random times: the simulator against the task graph, shortened orders
// against whole ones, bounds against both.
#include "schedule/simulation/order_simulator.hpp"

#include <doctest/doctest.h>

#include "order_walk.hpp"
#include "pipeline_support.hpp"
#include "plansearch/error.hpp"
#include "schedule/program/timeline.hpp"
#include "schedule/simulation/closed_form.hpp"
#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

namespace plansearch::testing::order_simulator_test {
namespace {

/// A legal shape of the given schedule.
PipelineShape any_shape(Dice& dice, ScheduleId id, int most_stages, int most_micro_batches) {
  const Schedule& row = schedule_row(id);
  for (;;) {
    PipelineShape shape;
    shape.schedule = id;
    shape.stages = dice.between(1, most_stages);
    shape.chunks = dice.between(row.chunks.fewest, row.chunks.most.value_or(4));
    shape.micro_batches = dice.between(1, most_micro_batches);
    if (row.groups == Groups::Sized && dice.between(0, 1) == 1) {
      shape.group = shape.stages + dice.between(0, 3);
    }
    if (dice.between(0, 3) == 0) shape.transfers = TransferMode::Blocking;
    if (row.tuned) {
      shape.tuned =
          UniformTimes{dice.ticks(1, 9), dice.ticks(1, 9), dice.ticks(0, 4), dice.ticks(0, 9)};
    }
    if (!fault_of(shape)) return shape;
  }
}

PipelineDurations any_durations(Dice& dice, const PipelineShape& shape, Ticks scale) {
  PipelineDurations times = random_durations(dice, shape, scale);
  if (dice.between(0, 4) > 0) {
    for (std::size_t k = 0; k < times.forward.size(); ++k) {
      times.weight_gradient.push_back(dice.ticks(0, scale));
    }
  }
  if (dice.between(0, 1) == 0) {
    // With the backward they overlap, at least a third of the scale, as long as by themselves.
    for (const Ticks forward : times.forward) {
      times.overlapped_forward.push_back(forward - dice.ticks(0, forward / 3));
    }
  }
  return times;
}

/// Through program and task graph, without the simulator.
Ticks through_task_graph(const PipelineShape& shape, const PipelineDurations& times) {
  const bool blocking = shape.transfers == TransferMode::Blocking;
  const auto timeline =
      simulate_order(std::get<ComputeOrder>(make_order(shape)), times.view(),
                     {blocking ? SendPolicy::Blocking : SendPolicy::Asynchronous, {}});
  const auto* fault = std::get_if<ProgramFault>(&timeline);
  if (fault != nullptr) FAIL(fault->detail);
  return std::get<Timeline>(timeline).makespan();
}

/// The simulator against every step of the whole order, and so the peaks.
void check_against_whole(const PipelineShape& shape, const PipelineDurations& times,
                         bool extrapolate) {
  PipelineSimulator simulator;
  OrderSimulator plain;
  PipelineResult whole, again;
  const auto order = std::get<ComputeOrder>(make_order(shape));
  plain.run(compile(order, 0), 0, times.view(), shape.transfers, SteadyState::SimulateAll, whole);
  const PipelineResult& found = simulator.run(shape, times.view());
  REQUIRE(found.makespan == whole.makespan);
  REQUIRE(found.devices == whole.devices);
  for (int d = 0; d < shape.stages; ++d) REQUIRE(peak_chunks(shape, d) == peak_chunks(order, d));
  if (schedule_row(shape.schedule).chunk_by_chunk) return;
  // Also where the schedule has a faster simulation of its own.
  const ShapeOrder& shortened = shape_order(shape);
  plain.run(*shortened.compiled, shortened.periods_left_out, times.view(), shape.transfers,
            extrapolate ? SteadyState::Extrapolate : SteadyState::SimulateAll, again);
  REQUIRE(again.makespan == whole.makespan);
  REQUIRE(again.devices == whole.devices);
}

TEST_SUITE("schedule") {
  TEST_CASE("every schedule: complete orders, and the simulator is the task graph") {
    Dice dice(101);
    PipelineSimulator simulator;
    for (const ScheduleId id : all_schedules()) {
      for (int i = 0; i < 60; ++i) {
        const PipelineShape shape = any_shape(dice, id, 6, 14);
        const PipelineDurations times = any_durations(dice, shape, 60);
        INFO(describe(shape));
        const auto order = std::get<ComputeOrder>(make_order(shape));
        REQUIRE(order_faults(order) == std::vector<std::string>{});
        const Ticks expected = through_task_graph(shape, times);
        REQUIRE(simulator.run(shape, times.view()).makespan == expected);
      }
    }
  }

  TEST_CASE("every schedule: a shortened order stands for the whole one") {
    Dice dice(102);
    for (const ScheduleId id : all_schedules()) {
      for (int i = 0; i < 60; ++i) {
        const PipelineShape shape = any_shape(dice, id, 6, 150);
        const PipelineDurations times = any_durations(dice, shape, i % 3 == 0 ? 3 : 1000);
        INFO(describe(shape));
        check_against_whole(shape, times, i % 2 == 0);
      }
    }
  }

  TEST_CASE("every schedule: the same with up to 64 stages and 512 micro-batches") {
    Dice dice(105);
    for (const ScheduleId id : all_schedules()) {
      for (int i = 0; i < 24; ++i) {
        const int stages = i % 6 == 0 ? 64 : dice.between(7, 63);
        const int micro_batches = i % 4 == 0 ? 512 : dice.between(4, 511);
        // The nearest legal one.
        PipelineShape shape = any_shape(dice, id, 6, 40);
        shape.stages = stages;
        shape.micro_batches = micro_batches;
        if (shape.group) shape.group = stages + 1;
        while (shape.micro_batches > 1 && fault_of(shape)) --shape.micro_batches;
        if (fault_of(shape)) continue;
        const PipelineDurations times = any_durations(dice, shape, 1000);
        INFO(describe(shape));
        check_against_whole(shape, times, false);
      }
    }
  }

  TEST_CASE("every schedule: bound <= simulation <= all pieces in a row, bound <= estimate") {
    Dice dice(103);
    PipelineSimulator simulator;
    const int per_schedule = 1000 / static_cast<int>(all_schedules().size()) + 1;
    for (const ScheduleId id : all_schedules()) {
      for (int i = 0; i < per_schedule; ++i) {
        const PipelineShape shape = any_shape(dice, id, 8, 40);
        PipelineDurations times = any_durations(dice, shape, 1000);
        if (i % 4 == 0) {
          // Devices as uneven as 100 : 1 : 100 : 1.
          const auto places = stage_places(shape);
          for (std::size_t k = 0; k < places.size(); ++k) {
            const Ticks factor = places[k].device % 2 == 0 ? 100 : 1;
            times.forward[k] *= factor;
            times.backward[k] *= factor;
            if (!times.overlapped_forward.empty()) times.overlapped_forward[k] *= factor;
          }
        }
        INFO(describe(shape));
        const Ticks makespan = simulator.run(shape, times.view()).makespan;
        const Ticks bound = order_bound(shape, times.view());
        REQUIRE(bound <= makespan);
        REQUIRE(bound <= estimate_makespan(shape, times.view()));
      }
    }
  }

  TEST_CASE("every schedule: the walk of the order gives the peaks, shortened or not") {
    Dice dice(104);
    for (const ScheduleId id : all_schedules()) {
      for (int i = 0; i < 40; ++i) {
        const PipelineShape shape = any_shape(dice, id, 6, 60);
        const auto order = std::get<ComputeOrder>(make_order(shape));
        std::vector<Bytes> bytes;
        for (int c = 0; c < order.chunks(); ++c) {
          bytes.emplace_back(static_cast<double>(dice.between(1, 100)));
        }
        INFO(describe(shape));
        for (int device = 0; device < shape.stages; ++device) {
          REQUIRE(peak_chunks(shape, device) == peak_chunks(order, device));
          REQUIRE(peak_activation_bytes(shape, device, bytes) ==
                  peak_activation_bytes(order, device, bytes));
        }
      }
    }
  }

  TEST_CASE("every schedule: 100,000 micro-batches cost no more than some") {
    PipelineSimulator simulator;
    for (const ScheduleId id : all_schedules()) {
      const Schedule& row = schedule_row(id);
      PipelineShape shape{id, 4, 100'000, row.chunks.fewest};
      if (fault_of(shape)) shape.stages = 1;
      if (row.tuned) shape.tuned = UniformTimes{9, 10, 1, 8};
      const PipelineDurations times = uniform_durations(shape, {9, 10, 1, 8});
      INFO(describe(shape));
      CHECK(simulator.run(shape, times.view()).micro_batches_simulated < 200);
      CHECK((row.warm_up != nullptr || shape_order(shape).compiled->micro_batches < 200));
      if (row.chunk_by_chunk) continue;
      CHECK(shape_order(shape).compiled->micro_batches < 200);
      CHECK(shape_order(shape).compiled->window.length > 0);
    }
  }

  TEST_CASE("times that add up beyond 64 bits are refused") {
    const PipelineShape shape{kDefaultSchedule, 2, 1'000'000};
    const auto times = uniform_durations(shape, {5'000'000'000'000, 5'000'000'000'000, 0});
    PipelineSimulator simulator;
    CHECK_THROWS_AS(simulator.run(shape, times.view()), InputError);
    CHECK_THROWS_AS(static_cast<void>(order_bound(shape, times.view())), InputError);
    CHECK_THROWS_AS(static_cast<void>(estimate_makespan(shape, times.view())), InputError);
    CHECK(to_ticks(Seconds(1e30)) == static_cast<Ticks>(kMostTicks));
  }
}

}  // namespace
}  // namespace plansearch::testing::order_simulator_test
