// SPDX-License-Identifier: Apache-2.0
#include "schedule/order/stage_places.hpp"

#include <doctest/doctest.h>

#include "schedule/table.hpp"
#include "support/schedules.hpp"

namespace plansearch::stage_places_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("looped placement passes all devices chunk after chunk") {
    const std::vector<StagePlace> expected{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}};
    CHECK(looped_mapping().places(3, 2) == expected);
  }

  TEST_CASE("a snake goes there and back") {
    const std::vector<StagePlace> expected{{0, 0}, {1, 0}, {2, 0}, {2, 1}, {1, 1},
                                           {0, 1}, {0, 2}, {1, 2}, {2, 2}};
    CHECK(snake_mapping().places(3, 3) == expected);
  }

  TEST_CASE("places of a shape are those of its schedule, and stay where they are") {
    const PipelineShape shape{test::kInterleaved, 3, 3, 2};
    const auto places = stage_places(shape);
    REQUIRE(places.size() == 6);
    CHECK(places[4] == StagePlace{1, 1});
    static_cast<void>(stage_places({kDefaultSchedule, 5, 3}));
    CHECK(stage_places(shape).data() == places.data());
  }

  TEST_CASE("every schedule is found by its name and aliases, as users type them") {
    for (const ScheduleId id : all_schedules()) {
      CHECK(find_schedule(to_text(id)) == id);
      for (const std::string_view alias : schedule_row(id).aliases) {
        CHECK(find_schedule(alias) == id);
      }
    }
    CHECK(find_schedule("1F1B") == kDefaultSchedule);
    CHECK(find_schedule("GPipe") == test::kGPipe);
    CHECK_FALSE(find_schedule("2f2b"));
    CHECK(schedule_names().front() == "gpipe");
  }
}

}  // namespace
}  // namespace plansearch::stage_places_test
