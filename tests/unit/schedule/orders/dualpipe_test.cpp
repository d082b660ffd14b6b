// SPDX-License-Identifier: Apache-2.0
// Expected values: the table of deepseek-ai/DualPipe's README, in device-stages: bubble
// (p / 2 - 1)(F&B + B - 3 W) with B the whole backward, at most p + 1 micro-batches on a device.
// Where forward and backward really overlap, the simulated bubble is smaller than that formula.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::dualpipe_test {
namespace {

ScheduleSummary run(int p, int m, UniformTimes times) {
  PipelineSimulator simulator;
  const PipelineShape shape = shape_of("dualpipe", p, m);
  return summarize(shape, simulator.run(shape, uniform_durations(shape, times).view()));
}

TEST_SUITE("schedule") {
  TEST_CASE("DualPipe: the bubble of its table when nothing is gained by overlapping") {
    for (const int p : {4, 8, 12}) {
      for (const auto& [f, b, w] :
           {std::tuple{1, 1, 1}, std::tuple{2, 3, 1}, std::tuple{10, 12, 8}}) {
        const Ticks formula = (p / 2 - 1) * ((f + b + w) + (b + w) - 3 * w);
        const auto summary = run(p, 3 * p, {f, b, 0, w});
        INFO("p " << p << " F " << f);
        CHECK(summary.bubble_time <= formula);
        if (f == 1) CHECK(summary.bubble_time == formula);
      }
    }
  }

  TEST_CASE("DualPipe: overlapping saves its share of every pair") {
    const auto apart = run(4, 16, {2, 2, 0, 2});
    const auto over = run(4, 16, {2, 2, 0, 2, 5});
    CHECK(over.makespan < apart.makespan);
    CHECK(over.makespan >= 16 * 5);
  }

  TEST_CASE("DualPipe: p + 1 micro-batches at most") {
    for (const int p : {2, 4, 8, 16}) {
      for (const int m : {2 * p, 4 * p}) {
        for (const double peak : run(p, m, {1, 1, 0, 1}).peak_activations) CHECK(peak <= p + 1);
      }
    }
  }

  TEST_CASE("DualPipe: two devices, written out") {
    const auto order = std::get<ComputeOrder>(make_order(shape_of("dualpipe", 2, 4)));
    using enum Phase;
    // Both ways meet on both devices: the first pair does not overlap, the second does.
    CHECK(order.devices[0] == std::vector<ComputeStep>{{0, 0, Forward},
                                                       {1, 2, Forward},
                                                       {0, 1, Forward},
                                                       {1, 2, Backward},
                                                       {1, 2, WeightGradient, true},
                                                       {1, 3, Forward},
                                                       {0, 0, Backward, true},
                                                       {0, 0, WeightGradient, true},
                                                       {1, 3, Backward},
                                                       {1, 3, WeightGradient, true},
                                                       {0, 1, Backward},
                                                       {0, 1, WeightGradient}});
  }

  TEST_CASE("DualPipe takes even numbers and two micro-batches per device") {
    const ScheduleId id = *find_schedule("dualpipe");
    CHECK(to_text(id, *fault_of(shape_of("dualpipe", 5, 20))) ==
          "dualpipe takes a multiple of 2 pipeline stages, not 5");
    CHECK(to_text(id, *fault_of(shape_of("dualpipe", 4, 6))) ==
          "dualpipe takes a multiple of 2 from 8 micro-batches, not 6");
  }
}

}  // namespace
}  // namespace plansearch::testing::dualpipe_test
