// SPDX-License-Identifier: Apache-2.0
#include "calibrate/order.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/units.hpp"

namespace plansearch::calibrate {
namespace {

constexpr std::size_t kShuffled = 8;
/// Between two words, in factors of two between sizes.
constexpr double kWordDistance = 1.0;

double distance(const Point& a, const Point& b) {
  double sum = 0.0;
  for (const auto& [name, value] : a.cells) {
    const std::string other = b.word(name);
    if (value == other) continue;
    const auto number = parse_number(value);
    const double step =
        number ? std::log2(*number / std::max(b.number(name), 1e-30)) : kWordDistance;
    sum += step * step;
  }
  return sum;
}

/// From the first point on, always the one farthest from all so far.
std::vector<Point> spread_out(std::vector<Point> points) {
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  for (std::size_t done = 0; done < points.size(); ++done) {
    if (done > 0) {
      const auto rest = nearest.begin() + static_cast<std::ptrdiff_t>(done);
      const auto next =
          static_cast<std::size_t>(std::max_element(rest, nearest.end()) - nearest.begin());
      std::swap(points[done], points[next]);
      std::swap(nearest[done], nearest[next]);
    }
    for (std::size_t i = done + 1; i < points.size(); ++i) {
      nearest[i] = std::min(nearest[i], distance(points[i], points[done]));
    }
  }
  return points;
}

}  // namespace

std::vector<Point> informative_order(const std::vector<std::vector<Point>>& probes,
                                     std::uint64_t seed) {
  std::vector<std::vector<Point>> sorted;
  std::size_t longest = 0;
  for (const std::vector<Point>& points : probes) {
    sorted.push_back(spread_out(points));
    longest = std::max(longest, points.size());
  }
  std::vector<Point> order;
  for (std::size_t place = 0; place < longest; ++place) {
    for (const std::vector<Point>& points : sorted) {
      if (place < points.size()) order.push_back(points[place]);
    }
  }
  std::mt19937_64 random(seed);
  for (std::size_t begin = 0; begin < order.size(); begin += kShuffled) {
    const std::size_t end = std::min(order.size(), begin + kShuffled);
    for (std::size_t i = end - 1; i > begin; --i) {
      std::swap(order[i], order[begin + random() % (i - begin + 1)]);
    }
  }
  return order;
}

}  // namespace plansearch::calibrate
