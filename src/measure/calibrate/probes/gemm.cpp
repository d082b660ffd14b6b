// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/calibrate/probe.hpp"
#include "plansearch/data_type.hpp"

namespace plansearch::calibrate {
namespace {

constexpr double kSmallestExtent = 64.0;
constexpr double kLargestExtent = 16384.0;

Point point_of(std::string_view probe, const std::string& format, std::string_view layout,
               const MatmulShape& shape) {
  Point point{probe, {{"dtype", format}, {"layout", std::string(layout)}}};
  const auto add = [&](const char* name, double value) {
    point.cells[name] = fmt::format("{:.0f}", value);
  };
  if (probe != "gemm") add("batch", shape.batch);
  add("m", shape.m);
  add("n", shape.n);
  add("k", shape.k);
  return point;
}

/// 8 bits and fewer.
bool is_narrow(std::string_view format) {
  return element_bytes(format) < 2.0;
}

/// Libraries multiply such operands only along the sum; frameworks turn copies of them.
bool takes_narrow(std::string_view probe, std::string_view layout, const MatmulShape& shape) {
  constexpr double kVector = 32.0;
  const auto whole = [&](double size) { return std::fmod(size, kVector) == 0.0; };
  return probe == "gemm" && layout == "nt" && whole(shape.m) && whole(shape.n) && whole(shape.k);
}

/// Every shape that the grid allows, in the three layouts.
std::vector<Point> in_layouts(std::string_view probe, const std::vector<MatmulShape>& shapes,
                              const Grid& grid) {
  std::vector<Point> points;
  for (const std::string& format : grid.formats) {
    for (const MatmulShape& shape : shapes) {
      for (const std::string_view layout : {"nn", "nt", "tn"}) {
        if (is_narrow(format) && !takes_narrow(probe, layout, shape)) continue;
        Point point = point_of(probe, format, layout, shape);
        const Work work = gemm_work(point);
        if (work.flops > grid.most_flops || work.footprint > grid.most_bytes) continue;
        const bool known = std::ranges::any_of(
            points, [&](const Point& other) { return other.cells == point.cells; });
        if (!known) points.push_back(std::move(point));
      }
    }
  }
  return points;
}

/// The largest power of two up to a size.
double power_below(double size) {
  return std::exp2(std::floor(std::log2(std::clamp(size, kSmallestExtent, kLargestExtent))));
}

double at_least_smallest(double size) {
  return std::clamp(size, kSmallestExtent, kLargestExtent);
}

}  // namespace

double element_bytes(std::string_view format) {
  if (format == "fp8_block") return 1.0;
  const auto type = parse_data_type(format);
  return type ? element_size(*type).value() : 4.0;
}

/// Cubes separate the rate of the matrix engine, short sums the start of a tile, few rows memory,
/// the smallest the launch; rows off whole vectors stand beside.
std::vector<Point> gemm_points(const Grid& grid) {
  std::vector<MatmulShape> shapes;
  const double largest = power_below(std::cbrt(grid.most_flops / 2.0));
  const int levels = grid.quick ? 4 : 6;
  double side = largest;
  for (int level = 0; level < levels && side >= kSmallestExtent; ++level, side *= 0.5) {
    const double wide = at_least_smallest(2.0 * side);
    const double narrow = at_least_smallest(0.5 * side);
    shapes.push_back({1, side, side, side});
    shapes.push_back({1, narrow, narrow, at_least_smallest(4.0 * side)});
    shapes.push_back({1, wide, wide, at_least_smallest(0.25 * side)});
    shapes.push_back({1, at_least_smallest(4.0 * side), narrow, narrow});
    shapes.push_back({1, side, at_least_smallest(1.5 * side), at_least_smallest(0.75 * side)});
    if (level % 2 == 0) shapes.push_back({1, side, side + 1.0, side});
  }
  // Short sums, where the start of a tile weighs, and few rows, where memory decides.
  double thin = power_below(std::sqrt(grid.most_flops / (2.0 * kSmallestExtent)));
  for (int level = 0; level < levels && thin > kSmallestExtent; ++level, thin *= 0.5) {
    shapes.push_back({1, thin, thin, kSmallestExtent});
    shapes.push_back({1, thin, thin, 2.0 * kSmallestExtent});
    shapes.push_back({1, 0.5 * thin, 0.5 * thin, 4.0 * kSmallestExtent});
    shapes.push_back({1, kSmallestExtent, thin, thin});
  }
  shapes.push_back({1, kSmallestExtent, kSmallestExtent, 2.0 * kSmallestExtent});
  shapes.push_back({1, kSmallestExtent, 2.0 * kSmallestExtent, kSmallestExtent});
  shapes.insert(shapes.end(), grid.shapes.begin(), grid.shapes.end());
  return in_layouts("gemm", shapes, grid);
}

std::vector<Point> batched_gemm_points(const Grid& grid) {
  std::vector<MatmulShape> shapes;
  // Scores of all heads are the largest operand: four bytes an element, and some room.
  constexpr double kScoreBytes = 5.0;
  const double longest = power_below(std::sqrt(std::min(
      grid.most_flops / (2.0 * 8.0 * kSmallestExtent), grid.most_bytes / (8.0 * kScoreBytes))));
  const int levels = grid.quick ? 2 : 4;
  double length = longest;
  for (int level = 0; level < levels && length >= kSmallestExtent; ++level, length *= 0.5) {
    for (const double head : {64.0, 128.0}) {
      shapes.push_back({8, length, length, head});
      shapes.push_back({8, length, head, length});
    }
    shapes.push_back({8, 0.5 * length, 2.0 * length, length});  // experts with as many tokens each
  }
  return in_layouts("batched_gemm", shapes, grid);
}

Work gemm_work(const Point& point) {
  const double batch = point.number("batch");
  const double m = point.number("m");
  const double n = point.number("n");
  const double k = point.number("k");
  const double bytes = batch * (m * k + k * n + m * n) * element_bytes(point.word("dtype"));
  return {2.0 * batch * m * n * k, bytes, bytes};
}

}  // namespace plansearch::calibrate
