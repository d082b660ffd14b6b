// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulation/simulated_program.hpp"

#include <doctest/doctest.h>

#include "order_walk.hpp"
#include "pipeline_support.hpp"
#include "schedule/table.hpp"

namespace plansearch::testing::simulated_program_test {
namespace {

SimulatedProgram simulated(const ComputeOrder& order, const PipelineTimes& times,
                           const LoweringOptions& options,
                           std::span<const StepEndTicks> ends = {}) {
  return std::get<SimulatedProgram>(
      simulate_program(lower(order, options), duration_table(times, order.weight_gradients, ends)));
}

}  // namespace

TEST_SUITE("unit") {
  // GPipe, two micro-batches on one device, F = 3, B = 4, 5 B each: up at 0 and 3, down at 10, 14.
  TEST_CASE("what a device holds over time comes from the program") {
    const PipelineShape shape{*find_schedule("gpipe"), 1, 2};
    const auto order = std::get<ComputeOrder>(make_order(shape));
    const auto times = uniform_durations(shape, {3, 4, 0});
    const PipelineBytes bytes{{Bytes(5)}, {}, {}, {}};
    const auto held = held_over_time(simulated(order, times.view(), {.bytes = &bytes}));
    REQUIRE(held.size() == 1);
    CHECK(held[0] ==
          std::vector<HeldBytes>{{0, Bytes(5)}, {3, Bytes(10)}, {10, Bytes(5)}, {14, Bytes(0)}});
  }

  // Two stages, one micro-batch, F = 2, B = 3; reductions 5 on the first and 9 on the second,
  // optimizers 1 and 4. Backward ends at 2 + 2 + 3 = 7 on stage 1 and at 10 on stage 0.
  TEST_CASE("optimizers start after the slowest reduction, or each after its own") {
    const PipelineShape shape{*find_schedule("1f1b"), 2, 1};
    const auto order = std::get<ComputeOrder>(make_order(shape));
    const auto times = uniform_durations(shape, {2, 3, 0});
    const std::vector<StepEndTicks> ends{{5, 0, 1}, {9, 0, 4}};
    const auto makespan = [&](const StepEnd& end, const std::vector<StepEndTicks>& ticks) {
      return simulated(order, times.view(), {.end = &end}, ticks).makespan();
    };
    CHECK(makespan({true, {}}, ends) == 16 + 4);  // max(10 + 5, 7 + 9), then max(1, 4)
    CHECK(makespan({false, {}}, ends) == 20);     // max(10 + 5 + 1, 7 + 9 + 4)
    CHECK(makespan({false, {}}, {{5, 0, 1}, {9, 0, 0}}) == 16);  // both alike
    // A shared gradient of 6 after both own reductions: from 16 on.
    CHECK(makespan({true, {true, true}}, {{5, 6, 1}, {9, 6, 4}}) == 16 + 6 + 4);
  }
}

TEST_SUITE("property") {
  TEST_CASE("every schedule: the program holds what a walk of the order finds") {
    Dice dice(41);
    for (const ScheduleId id : all_schedules()) {
      for (int i = 0; i < 20; ++i) {
        PipelineShape shape{id, dice.between(1, 5), dice.between(1, 12)};
        shape.chunks = schedule_row(id).chunks.fewest;
        if (fault_of(shape)) continue;
        const auto order = std::get<ComputeOrder>(make_order(shape));
        const auto times = random_durations(dice, shape, 50);
        PipelineBytes bytes;
        std::vector<Bytes> saved;  // by chunk of a device, those of both replicas
        for (const StagePlace& place : order.pipeline) {
          while (saved.size() <= static_cast<std::size_t>(place.chunk)) {
            saved.emplace_back(dice.between(1, 9));
          }
        }
        for (const StagePlace& place : order.pipeline) {
          bytes.saved.push_back(saved[static_cast<std::size_t>(place.chunk)]);
        }
        bytes.activation.resize(bytes.saved.size());
        bytes.gradient.resize(bytes.saved.size());
        const auto peaks = peak_bytes(simulated(order, times.view(), {.bytes = &bytes}));
        INFO(describe(shape));
        for (int d = 0; d < shape.stages; ++d) {
          CHECK(peaks[static_cast<std::size_t>(d)] == peak_activation_bytes(order, d, saved));
        }
      }
    }
  }
}

}  // namespace plansearch::testing::simulated_program_test
