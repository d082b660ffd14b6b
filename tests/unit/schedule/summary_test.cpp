// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

#include <doctest/doctest.h>

#include "order_walk.hpp"
#include "pipeline_support.hpp"
#include "support/schedules.hpp"

namespace plansearch::testing::summary_test {
namespace {

ScheduleSummary summary_of(const PipelineShape& shape, UniformTimes times) {
  PipelineSimulator simulator;
  return summarize(shape, simulator.run(shape, uniform_durations(shape, times).view()));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("bubble shares: (p-1)/(m+p-1), and (p-1)/(vm+p-1) interleaved") {
    const auto share = [](ScheduleId schedule, int p, int m, int v) {
      return summary_of({schedule, p, m, v}, {1, 2, 0}).bubble_fraction;
    };
    CHECK(share(kDefaultSchedule, 4, 8, 1) == doctest::Approx(0.2727).epsilon(1e-3));
    CHECK(share(kDefaultSchedule, 8, 32, 1) == doctest::Approx(0.1795).epsilon(1e-3));
    CHECK(share(test::kInterleaved, 4, 8, 2) == doctest::Approx(0.1579).epsilon(1e-3));
    CHECK(share(test::kInterleaved, 4, 8, 4) == doctest::Approx(0.0857).epsilon(1e-3));
    CHECK(share(kDefaultSchedule, 1, 8, 1) == 0.0);
  }

  TEST_CASE("1F1B, 4 stages, 8 micro-batches") {
    const ScheduleSummary summary = summary_of({kDefaultSchedule, 4, 8}, {1, 2, 0});
    CHECK(summary == ScheduleSummary{33, 33, 9, 9.0 / 33.0, {4.0, 3.0, 2.0, 1.0}});
  }

  TEST_CASE("interleaved peaks are in micro-batches of a device-stage") {
    const ScheduleSummary summary = summary_of({test::kInterleaved, 4, 8, 2}, {1, 2, 0});
    CHECK(summary.makespan == 57);
    CHECK(summary.bubble_time == 9);
    CHECK(summary.peak_activations == std::vector<double>{5.5, 4.5, 3.5, 2.5});
  }
}

TEST_SUITE("property") {
  TEST_CASE("the summary of a timeline is that of the simulator") {
    Dice dice(41);
    PipelineSimulator simulator;
    for (int i = 0; i < 100; ++i) {
      PipelineShape shape = random_shape(dice, 4);
      shape.transfers = TransferMode::Asynchronous;
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const auto times = random_durations(dice, shape, 100);
      const auto timeline = std::get<Timeline>(simulate_order(order, times.view()));
      INFO(describe(shape));
      CHECK(summarize(order, timeline) == summarize(shape, simulator.run(shape, times.view())));
    }
  }
}

}  // namespace plansearch::testing::summary_test
