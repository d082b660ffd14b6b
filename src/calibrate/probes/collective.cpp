// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "calibrate/probes/probe_rows.hpp"

namespace plansearch::calibrate {

std::vector<Point> collective_points(const Grid& grid) {
  constexpr double kSmallest = 1 << 10;
  constexpr double kLargest = 1 << 30;
  std::vector<Point> points;
  const double step = grid.quick ? 16.0 : 4.0;
  for (int ranks = 2; ranks <= grid.ranks; ranks *= 2) {
    if (grid.ranks % ranks != 0) continue;
    const int nodes = (ranks + grid.ranks_of_node - 1) / grid.ranks_of_node;
    for (const char* kind :
         {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}) {
      for (double size = kSmallest; size <= std::min(kLargest, grid.most_bytes); size *= step) {
        points.push_back({"collective",
                          {{"collective", kind},
                           {"ranks", fmt::format("{}", ranks)},
                           {"nodes", fmt::format("{}", nodes)},
                           {"bytes", fmt::format("{:.0f}", size)}}});
      }
    }
  }
  return points;
}

Work collective_work(const Point& point) {
  // Links are slower than memory, and a ring passes every byte twice.
  return {0.0, 16.0 * point.number("bytes"), 2.0 * point.number("bytes")};
}

}  // namespace plansearch::calibrate
