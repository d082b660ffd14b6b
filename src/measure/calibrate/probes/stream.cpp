// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "measure/calibrate/backend.hpp"
#include "measure/calibrate/probe.hpp"

namespace plansearch::calibrate {
namespace {

/// An element-wise product with a sum, a norm of rows, Adam on weight, gradient and two moments.
constexpr std::array kPasses{StreamPass{"copy", 1, 1}, StreamPass{"elementwise", 2, 1},
                             StreamPass{"norm", 1, 1}, StreamPass{"optimizer", 4, 3}};
constexpr double kSmallestStream = 1 << 16;

/// Powers of two (quick: of four) up to what the grid allows.
std::vector<double> sizes(const Grid& grid, double largest) {
  std::vector<double> all;
  const double step = grid.quick ? 4.0 : 2.0;
  for (double size = kSmallestStream; size <= std::min(largest, grid.most_bytes); size *= step) {
    all.push_back(size);
  }
  return all;
}

}  // namespace

const StreamPass& stream_pass(const Point& point) {
  const std::string name = point.word("pass");
  for (const StreamPass& pass : kPasses) {
    if (pass.name == name) return pass;
  }
  throw Unmeasurable{fmt::format("there is no pass '{}'", name)};
}

std::vector<Point> stream_points(const Grid& grid) {
  constexpr double kLargest = 4.0 * (1 << 30);
  std::vector<Point> points;
  for (const StreamPass& pass : kPasses) {
    for (const double size : sizes(grid, kLargest)) {
      // Whole rows of 1024 elements in every array.
      const double rows = 4096.0 * (pass.reads + pass.writes);
      points.push_back({"stream",
                        {{"pass", std::string(pass.name)},
                         {"bytes", fmt::format("{:.0f}", std::ceil(size / rows) * rows)}}});
    }
  }
  return points;
}

Work stream_work(const Point& point) {
  return {0.0, point.number("bytes"), point.number("bytes")};
}

std::vector<Point> host_copy_points(const Grid& grid) {
  constexpr double kLargest = 1 << 30;
  std::vector<Point> points;
  for (const char* direction : {"to_device", "from_device"}) {
    for (const double size : sizes(grid, kLargest)) {
      points.push_back(
          {"host_copy", {{"direction", direction}, {"bytes", fmt::format("{:.0f}", size)}}});
    }
  }
  return points;
}

Work host_copy_work(const Point& point) {
  // Host links are slower than memory.
  return {0.0, 32.0 * point.number("bytes"), point.number("bytes")};
}

std::vector<Point> launch_points(const Grid& /*grid*/) {
  return {{"launch", {{"kernel", "stream"}}}, {"launch", {{"kernel", "graph"}}}};
}

Work launch_work(const Point& /*point*/) {
  return {};
}

}  // namespace plansearch::calibrate
