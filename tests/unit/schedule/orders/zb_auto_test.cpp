// SPDX-License-Identifier: Apache-2.0
// Expected values: every sequence of forwards, input and weight gradients that two devices could
// run under the cap, tried one by one (micro-batches in turn: they are all alike).
#include <doctest/doctest.h>

#include <functional>

#include "../order_walk.hpp"
#include "../pipeline_support.hpp"
#include "golden.hpp"
#include "schedule/order/order_check.hpp"
#include "schedule/orders/list_scheduling.hpp"
#include "schedule/simulation/order_simulator.hpp"

namespace plansearch::testing::zb_auto_test {
namespace {

UniformTimes any_times(Dice& dice) {
  return {dice.ticks(1, 20), dice.ticks(1, 20), 0, dice.ticks(1, 20)};
}

Ticks makespan_of(const PipelineShape& shape, const UniformTimes& times) {
  PipelineSimulator simulator;
  return simulator.run(shape, uniform_durations(shape, times).view()).makespan;
}

PipelineShape auto_shape(int p, int m, int chunks, int cap, const UniformTimes& times) {
  PipelineShape shape = shape_of("zb-auto", p, m, chunks);
  shape.memory_cap = cap;
  shape.tuned = times;
  return placed_for(shape, uniform_durations(shape, times).view());
}

/// All rows of one device: F, B, W in turn, at most `cap` kept.
std::vector<std::vector<ComputeStep>> all_rows(int m, int cap) {
  std::vector<std::vector<ComputeStep>> rows;
  std::vector<ComputeStep> row;
  const std::function<void(int, int, int)> go = [&](int f, int b, int w) {
    if (w == m) rows.push_back(row);
    const auto with = [&](ComputeStep step, int nf, int nb, int nw) {
      row.push_back(step);
      go(nf, nb, nw);
      row.pop_back();
    };
    if (f < m && f - w < cap) with({0, f, Phase::Forward}, f + 1, b, w);
    if (b < f) with({0, b, Phase::Backward}, f, b + 1, w);
    if (w < b) with({0, w, Phase::WeightGradient}, f, b, w + 1);
  };
  go(0, 0, 0);
  return rows;
}

/// Ends of two devices that run these rows; nothing when they wait for each other.
std::optional<Ticks> run_rows(const std::vector<ComputeStep>& first,
                              const std::vector<ComputeStep>& second, const UniformTimes& t,
                              int m) {
  std::vector<Ticks> forward(static_cast<std::size_t>(m), -1), backward = forward;
  const std::vector<ComputeStep>* rows[2] = {&first, &second};
  std::size_t next[2] = {0, 0};
  Ticks free[2] = {0, 0};
  for (bool moved = true; moved;) {
    moved = false;
    for (int d = 0; d < 2; ++d) {
      for (; next[d] < rows[d]->size(); ++next[d], moved = true) {
        const ComputeStep& step = (*rows[d])[next[d]];
        const auto i = static_cast<std::size_t>(step.micro_batch);
        Ticks length = t.weight;
        if (step.phase == Phase::Forward) {
          if (d == 1 && forward[i] < 0) break;
          if (d == 1) free[d] = std::max(free[d], forward[i]);
          length = t.forward;
        } else if (step.phase == Phase::Backward) {
          if (d == 0 && backward[i] < 0) break;
          if (d == 0) free[d] = std::max(free[d], backward[i]);
          length = t.backward;
        }
        free[d] += length;
        if (d == 0 && step.phase == Phase::Forward) forward[i] = free[d];
        if (d == 1 && step.phase == Phase::Backward) backward[i] = free[d];
      }
    }
  }
  if (next[0] < first.size() || next[1] < second.size()) return std::nullopt;
  return std::max(free[0], free[1]);
}

/// The best of the fixed orders with as many chunks, on whatever places, that keep to the cap.
Ticks best_fixed(int p, int m, int chunks, int cap, const UniformTimes& times,
                 std::optional<PipelineShape> same_places = std::nullopt) {
  Ticks best = std::numeric_limits<Ticks>::max();
  for (const ScheduleId id : all_schedules()) {
    const Schedule& row = schedule_row(id);
    const PipelineShape shape{id, p, m, chunks};
    if (row.tuned || row.placement->replicas > 1 || fault_of(shape)) continue;
    if (same_places && !std::ranges::equal(stage_places(shape), stage_places(*same_places))) {
      continue;
    }
    int peak = 0;
    for (int d = 0; d < p; ++d) peak = std::max(peak, peak_chunks(shape, d));
    if (peak <= cap * chunks) best = std::min(best, makespan_of(shape, times));
  }
  return best;
}

TEST_SUITE("schedule") {
  TEST_CASE("zb-auto: as good as brute force for two devices") {
    Dice dice(301);
    for (int n = 0; n < 25; ++n) {
      const UniformTimes times = any_times(dice);
      for (int m = 1; m <= 3; ++m) {
        for (const int cap : {1, 2, 3, 4}) {
          Ticks best = std::numeric_limits<Ticks>::max();
          const auto rows = all_rows(m, cap);
          for (const auto& first : rows) {
            for (const auto& second : rows) {
              best = std::min(best, run_rows(first, second, times, m).value_or(best));
            }
          }
          INFO("F " << times.forward << " B " << times.backward << " W " << times.weight << " m "
                    << m << " cap " << cap);
          CHECK(makespan_of(auto_shape(2, m, 1, cap, times), times) == best);
        }
      }
    }
  }

  TEST_CASE("zb-auto: never worse than the best fixed order under the same cap") {
    Dice dice(302);
    int better = 0, compared = 0, loops = 0;
    for (int n = 0; n < 200; ++n) {
      const UniformTimes times = any_times(dice);
      const int p = dice.between(2, 6);
      const int m = dice.between(1, 3) * p;
      const int cap = dice.between(p, 2 * p);
      for (const int chunks : {1, 2}) {
        const PipelineShape shape = auto_shape(p, m, chunks, cap, times);
        const Ticks found = makespan_of(shape, times);
        const Ticks fixed = best_fixed(p, m, chunks, cap, times);
        INFO(describe(shape) << " cap " << cap << " F " << times.forward << " B " << times.backward
                             << " W " << times.weight);
        REQUIRE(found <= fixed);
        for (int d = 0; d < p; ++d) REQUIRE(peak_chunks(shape, d) <= cap * chunks);
        ++compared;
        if (shape.placement == &looped_mapping()) ++loops;
        if (static_cast<double>(found) <= 0.99 * static_cast<double>(fixed)) ++better;
      }
    }
    MESSAGE("zb-auto is faster by 1 % or more in ", better, " of ", compared, " cases, a loop in ",
            loops);
    CHECK(better > compared / 20);
    CHECK(loops > 0);
  }

  TEST_CASE("zb-auto: many micro-batches are as good as the best fixed order, and cheap") {
    Dice dice(303);
    PipelineSimulator simulator;
    for (int n = 0; n < 60; ++n) {
      const UniformTimes times = any_times(dice);
      const int p = dice.between(2, 6);
      const int m = dice.between(100, 200) * p;
      for (const int chunks : {1, 2}) {
        PipelineShape shape = shape_of("zb-auto", p, m, chunks);
        shape.tuned = times;
        INFO(describe(shape) << " F " << times.forward << " B " << times.backward << " W "
                             << times.weight);
        REQUIRE(makespan_of(shape, times) <= best_fixed(p, m, chunks, p, times, shape));
        REQUIRE(shape_order(shape).compiled->micro_batches <= 60 * p);
        REQUIRE(shape_order(shape).periods_left_out > 0);
      }
    }
  }

  // What a list says about itself is what running it takes.
  TEST_CASE("zb-auto: lists know their times and their peak; blocks can be run again") {
    Dice dice(304);
    OrderSimulator plain;
    PipelineResult result;
    int repeated = 0;
    for (int n = 0; n < 60; ++n) {
      const UniformTimes times = any_times(dice);
      const int p = dice.between(2, 6);
      PipelineShape shape = shape_of("zb-auto", p, dice.between(4, 8) * p, dice.between(1, 2));
      shape.memory_cap = dice.between(1, 2 * p);
      const auto run = [&](const std::vector<ListPiece>& pieces, int micro_batches) {
        const ComputeOrder order = order_of_pieces(shape, pieces);
        REQUIRE(order.micro_batches == micro_batches);
        REQUIRE_FALSE(check_order(order).has_value());
        plain.run(compile(order, 0), 0, uniform_durations(shape, times).view(),
                  TransferMode::Asynchronous, SteadyState::SimulateAll, result);
        int peak = 0;
        for (int d = 0; d < p; ++d) peak = std::max(peak, peak_chunks(order, d));
        return peak;
      };
      const auto list = list_order(shape, times, {}, std::numeric_limits<Ticks>::max());
      REQUIRE(list.has_value());
      REQUIRE(run(list->pieces, shape.micro_batches) == list->peak);
      REQUIRE(result.makespan == list->makespan);
      REQUIRE(result.span() == list->span);
      REQUIRE(list_order(shape, times, {}, list->makespan)->pieces == list->pieces);
      REQUIRE(!list_order(shape, times, {}, shape.chunks * shape.micro_batches - 1).has_value());
      for (const ListBlock& block : list->blocks) {
        const int more = 3 * block.micro_batches;
        REQUIRE(run(list->repeated(block, 4), shape.micro_batches + more) == list->peak);
        ++repeated;
      }
    }
    CHECK(repeated > 100);
  }

  TEST_CASE("zb-auto: a plan's own times choose the order") {
    const PipelineShape shape = shape_of("zb-auto", 4, 8);
    const auto times = uniform_durations(shape, {3000, 1000, 0, 200});
    const PipelineShape tuned = tuned_to(shape, times.view());
    // 1/64 of the longest phase: 64, 21.3 and 4.3.
    CHECK(tuned.tuned == UniformTimes{64, 21, 0, 4});
    CHECK(tuned_to(shape_of("zb-h1", 4, 8), times.view()) == shape_of("zb-h1", 4, 8));
    CHECK(placed_for(shape_of("zb-v", 4, 8, 2),
                     uniform_durations(shape_of("zb-v", 4, 8, 2), {3, 1, 0, 1}).view()) ==
          shape_of("zb-v", 4, 8, 2));
    // Not made yet, it may keep what the cap allows: as many as 1F1B's first device.
    CHECK(peak_chunks(shape, 3) == 4);
    CHECK(peak_activation_bytes(shape, 3, std::vector<Bytes>{Bytes(5)}) == Bytes(20));
  }
}

}  // namespace
}  // namespace plansearch::testing::zb_auto_test
