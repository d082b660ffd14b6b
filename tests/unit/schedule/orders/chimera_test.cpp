// SPDX-License-Identifier: Apache-2.0
// Expected values: slots of one unit as in the paper's figure for p = 4 (10 for equal forward and
// backward, 16 for a backward of twice the forward); 10, 16, 22 and 28, 38 are what a simulation by
// an independent script finds for 4, 6 and 8 devices. Peaks p / 2 + 1 to p: the paper's table.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing::chimera_test {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("Chimera: slots of a unit") {
    for (const auto& [p, equal, twice] :
         {std::tuple{4, 10, 16}, std::tuple{6, 16, 28}, std::tuple{8, 22, 38}}) {
      CHECK(summary_of(shape_of("chimera", p, p), {1, 1, 0}).makespan == equal);
      CHECK(summary_of(shape_of("chimera", p, p), {1, 2, 0}).makespan <= twice);
      // Units follow one another without a gap: 2 p more slots for p more micro-batches.
      CHECK(summary_of(shape_of("chimera", p, 3 * p), {1, 1, 0}).makespan == equal + 4 * p);
    }
  }

  TEST_CASE("Chimera: between p / 2 + 1 and p micro-batches on a device") {
    for (const int p : {4, 6, 8, 16}) {
      for (const double peak : summary_of(shape_of("chimera", p, 2 * p), {}).peak_activations) {
        CHECK(peak >= p / 2 + 1);
        CHECK(peak <= p);
      }
    }
  }

  TEST_CASE("Chimera: two devices, written out") {
    const auto order = std::get<ComputeOrder>(make_order(shape_of("chimera", 2, 2)));
    using enum Phase;
    // Micro-batch 0 goes down, 1 comes up.
    CHECK(order.devices[0] ==
          std::vector<ComputeStep>{
              {0, 0, Forward}, {1, 1, Forward}, {1, 1, Backward}, {0, 0, Backward}});
    CHECK(order.devices[1] ==
          std::vector<ComputeStep>{
              {1, 1, Forward}, {0, 0, Forward}, {0, 0, Backward}, {1, 1, Backward}});
    CHECK(order.virtual_stage(0, 1) == 3);
    CHECK_FALSE(order.neighbour(1, 1));
    CHECK_FALSE(order.neighbour(2, -1));
  }

  TEST_CASE("Chimera takes pairs of devices and whole units") {
    const ScheduleId id = *find_schedule("chimera");
    CHECK(to_text(id, *fault_of(shape_of("chimera", 3, 6))) ==
          "chimera takes a multiple of 2 pipeline stages, not 3");
    CHECK(to_text(id, *fault_of(shape_of("chimera", 4, 6))) ==
          "chimera takes a multiple of 4 micro-batches, not 6");
  }
}

}  // namespace
}  // namespace plansearch::testing::chimera_test
