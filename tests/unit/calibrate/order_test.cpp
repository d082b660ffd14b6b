// SPDX-License-Identifier: Apache-2.0
#include "calibrate/session.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace plansearch::calibrate {
namespace {

std::vector<Point> sizes(const char* probe, int count) {
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) {
    points.push_back({probe, {{"bytes", fmt::format("{}", std::int64_t{1024} << i)}}});
  }
  return points;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every point has a place, and a seed always gives the same ones") {
    const std::vector<std::vector<Point>> sweeps{sizes("stream", 20), sizes("host_copy", 7)};
    const auto order = informative_order(sweeps, 3);
    std::set<std::string> keys;
    for (const Point& point : order) keys.insert(point.key());
    CHECK(order.size() == 27);
    CHECK(keys.size() == 27);
    const auto again = informative_order(sweeps, 3);
    CHECK(std::equal(order.begin(), order.end(), again.begin(),
                     [](const Point& a, const Point& b) { return a.key() == b.key(); }));
  }

  TEST_CASE("the first few points cover the whole sweep, probes in turn") {
    const auto order = informative_order({sizes("stream", 20), sizes("host_copy", 20)}, 1);
    double smallest = 1e30;
    double largest = 0.0;
    int streams = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      streams += order[i].probe == "stream" ? 1 : 0;
      smallest = std::min(smallest, order[i].number("bytes"));
      largest = std::max(largest, order[i].number("bytes"));
    }
    CHECK(streams == 4);
    CHECK(largest / smallest == doctest::Approx(std::int64_t{1} << 19));
  }
}

}  // namespace plansearch::calibrate
