// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulation/pipeline.hpp"

#include <doctest/doctest.h>

#include "plansearch/error.hpp"
#include "support/schedules.hpp"

namespace plansearch::pipeline_test {

TEST_SUITE("unit") {
  TEST_CASE("an interleaved pipeline says how many micro-batches it needs") {
    const auto obstacle = obstacle_of({test::kInterleaved, 4, 6, 2});
    REQUIRE(obstacle);
    CHECK(obstacle->obstacle == Obstacle::ScheduleNeedsMicroBatches);
    CHECK(obstacle->detail == "interleaved takes a multiple of 4 micro-batches, not 6");
    CHECK(obstacle->needed == 4);
    CHECK(obstacle->available == 6);
    CHECK_FALSE(obstacle_of({test::kInterleaved, 4, 8, 2}));
  }

  TEST_CASE("one of a thing is one") {
    CHECK(obstacle_of({kDefaultSchedule, 4, 8, 2})->detail ==
          "1f1b takes 1 chunk per stage, not 2");
    CHECK(obstacle_of({kDefaultSchedule, 4, 0})->detail ==
          "1f1b takes at least 1 micro-batch, not 0");
  }

  TEST_CASE("equal stages: a duration for every virtual stage, a transfer for every boundary") {
    const PipelineShape shape{test::kInterleaved, 4, 8, 2};
    const PipelineDurations times = uniform_durations(shape, {3, 5, 7});
    CHECK(times.forward == std::vector<Ticks>(8, 3));
    CHECK(times.backward == std::vector<Ticks>(8, 5));
    CHECK(times.activation_transfer == std::vector<Ticks>(7, 7));
    CHECK(times.gradient_transfer == std::vector<Ticks>(7, 7));
  }

  TEST_CASE("durations that do not fit the shape are a programming error") {
    const PipelineShape shape{kDefaultSchedule, 4, 8};
    PipelineDurations times = uniform_durations(shape, {3, 5, 7});
    CHECK_NOTHROW(check_times(shape, times.view()));
    times.forward.pop_back();
    CHECK_THROWS_AS(check_times(shape, times.view()), InternalError);
    times = uniform_durations(shape, {3, 5, 7});
    times.gradient_transfer[1] = -1;
    CHECK_THROWS_AS(check_times(shape, times.view()), InternalError);
  }
}

}  // namespace plansearch::pipeline_test
