// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "measure/calibrate/probe.hpp"

namespace plansearch::calibrate {
namespace {

constexpr double kSmallestMessage = 1 << 10;
constexpr double kLargestMessage = 1 << 30;

/// Cells that are as usual are left out.
Point point_of(const char* kind, const MessageGroup& group, int nodes, double bytes) {
  Point point{"collective",
              {{"collective", kind},
               {"ranks", fmt::format("{}", group.ranks)},
               {"nodes", fmt::format("{}", nodes)},
               {"bytes", fmt::format("{:.0f}", bytes)}}};
  if (group.stride > 1) point.cells["stride"] = fmt::format("{}", group.stride);
  if (group.alone) point.cells["groups"] = "one";
  return point;
}

/// Neighbours, members of all nodes (one of each), and members as far apart as they can be.
std::set<MessageGroup> groups_of(const Grid& grid) {
  std::set<MessageGroup> groups;
  for (int ranks = 2; ranks <= grid.ranks; ranks *= 2) {
    for (const int stride : {1, grid.ranks_of_node, grid.ranks / ranks}) {
      const MessageGroup group{ranks, stride};
      const bool whole = stride >= 1 && divides(group, grid.ranks);
      // Apart but on one node: the links of a switch, as for neighbours.
      const bool new_way = stride == 1 || nodes_of(group, grid.ranks_of_node) > 1;
      if (whole && new_way) groups.insert(group);
    }
  }
  return groups;
}

}  // namespace

std::vector<Point> collective_points(const Grid& grid) {
  constexpr std::array kKinds{"all_reduce", "all_gather", "reduce_scatter",
                              "all_to_all", "broadcast",  "send_recv"};
  std::vector<Point> points;
  const double step = grid.quick ? 16.0 : 4.0;
  for (MessageGroup group : groups_of(grid)) {
    const int nodes = nodes_of(group, grid.ranks_of_node);
    for (const char* kind : kKinds) {
      for (double size = kSmallestMessage; size <= std::min(kLargestMessage, grid.most_bytes);
           size *= step) {
        points.push_back(point_of(kind, group, nodes, size));
      }
    }
    if (group.ranks * group.stride == grid.ranks && group.stride == 1) continue;  // no sisters
    group.alone = true;
    for (double size = 64.0 * kSmallestMessage; size <= std::min(kLargestMessage, grid.most_bytes);
         size *= 4.0 * step) {
      points.push_back(point_of("all_reduce", group, nodes, size));
    }
  }
  return points;
}

Work collective_work(const Point& point) {
  // Links are slower than memory, and a ring passes every byte twice.
  return {0.0, 16.0 * point.number("bytes"), 2.0 * point.number("bytes")};
}

MessageGroup message_group(const Point& point) {
  return {static_cast<int>(point.number("ranks")), static_cast<int>(point.number("stride")),
          point.word("groups") == "one"};
}

}  // namespace plansearch::calibrate
