// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/processes/processes.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "measure/calibrate/probe.hpp"

namespace plansearch::calibrate::message_group_test {

TEST_SUITE("unit") {
  TEST_CASE("groups of neighbours and groups across, as on a mesh of 2 x 4") {
    // Ranks 0 .. 7: neighbours {0..3}, {4..7}; across {0, 4}, {1, 5}, {2, 6}, {3, 7}.
    const MessageGroup near{4, 1};
    const MessageGroup across{2, 4};
    CHECK(place_of(6, near) == GroupPlace{1, 2});
    CHECK(place_of(6, across) == GroupPlace{2, 1});
    CHECK(leader_of(6, near) == 4);
    CHECK(leader_of(6, across) == 2);
    CHECK(nodes_of(near, 4) == 1);
    CHECK(nodes_of(across, 4) == 2);
    CHECK(nodes_of({8, 1}, 4) == 2);
    CHECK(divides({2, 2}, 8));
    CHECK_FALSE(divides({2, 8}, 8));
    CHECK_FALSE(divides({3, 1}, 8));
    // Two groups inside each block of four: {0, 2}, {1, 3}, {4, 6}, {5, 7}.
    CHECK(place_of(7, {2, 2}) == GroupPlace{3, 1});
    CHECK(place_of(4, {2, 2}) == GroupPlace{2, 0});
  }

  TEST_CASE("messages of a sweep: neighbours, one of each node, one group alone") {
    Grid grid;
    grid.most_bytes = 1e6;
    grid.ranks = 8;
    grid.ranks_of_node = 4;
    std::set<std::string> kinds;
    std::set<MessageGroup> groups;
    for (const Point& point : collective_points(grid)) {
      kinds.insert(point.word("collective"));
      const MessageGroup group = message_group(point);
      groups.insert(group);
      CHECK(point.number("nodes") == nodes_of(group, 4));
      CHECK(divides(group, 8));
      if (group.alone) CHECK(point.word("collective") == "all_reduce");
    }
    CHECK(kinds == std::set<std::string>{"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                         "broadcast", "send_recv"});
    CHECK(groups == std::set<MessageGroup>{{2, 1},
                                           {2, 4},
                                           {4, 1},
                                           {4, 2},
                                           {8, 1},
                                           {2, 1, true},
                                           {2, 4, true},
                                           {4, 1, true},
                                           {4, 2, true}});
  }
}

}  // namespace plansearch::calibrate::message_group_test
