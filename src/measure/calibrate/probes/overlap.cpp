// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "measure/calibrate/probe.hpp"

namespace plansearch::calibrate {
namespace {

constexpr std::array kParts{"gemm", "to_device", "from_device", "all_reduce"};

/// A part as a point of its own probe. Sizes are those of a layer of a large network.
Point part_of(const Point& point, const std::string& name) {
  const std::string bytes = point.word("bytes");
  if (name == "gemm") {
    const std::string side = point.word("m");
    return {
        "gemm",
        {{"dtype", point.word("dtype")}, {"layout", "nn"}, {"m", side}, {"n", side}, {"k", side}}};
  }
  if (name == "all_reduce") {
    return {
        "collective",
        {{"collective", name}, {"ranks", point.word("ranks")}, {"nodes", "1"}, {"bytes", bytes}}};
  }
  return {"host_copy", {{"direction", name}, {"bytes", bytes}}};
}

}  // namespace

/// Each alone, then each beside each other. Messages go over all ranks of a node.
std::vector<Point> overlap_points(const Grid& grid) {
  constexpr double kSide = 4096.0;
  constexpr double kBytes = 256.0 * (1 << 20);
  const double largest = std::exp2(std::floor(std::log2(std::cbrt(grid.most_flops / 2.0))));
  const int ranks = std::min(grid.ranks, grid.ranks_of_node);
  std::vector<Point> points;
  if (grid.formats.empty() || grid.ranks < 1) return points;
  for (const char* timed : kParts) {
    for (const char* beside : {"", "gemm", "to_device", "from_device", "all_reduce"}) {
      const auto is = [&](std::string_view name) { return timed == name || beside == name; };
      if (std::string_view(timed) == beside || (is("all_reduce") && ranks < 2)) continue;
      Point point{"overlap", {{"timed", timed}}};
      if (*beside != '\0') point.cells["beside"] = beside;
      if (is("gemm")) {
        point.cells["dtype"] = grid.formats.front();
        point.cells["m"] = fmt::format("{:.0f}", std::min(kSide, largest));
      }
      if (is("all_reduce")) point.cells["ranks"] = fmt::format("{}", ranks);
      if (is("all_reduce") || is("to_device") || is("from_device")) {
        point.cells["bytes"] = fmt::format("{:.0f}", std::min(kBytes, std::floor(grid.most_bytes)));
      }
      points.push_back(std::move(point));
    }
  }
  return points;
}

OverlapParts overlap_parts(const Point& point) {
  const std::string beside = point.word("beside");
  OverlapParts parts{part_of(point, point.word("timed")), std::nullopt};
  if (!beside.empty()) parts.beside = part_of(point, beside);
  return parts;
}

Work overlap_work(const Point& point) {
  const OverlapParts parts = overlap_parts(point);
  Work work = probe_named(parts.timed.probe).work(parts.timed);
  if (!parts.beside) return work;
  const Work other = probe_named(parts.beside->probe).work(*parts.beside);
  return {work.flops + other.flops, work.bytes + other.bytes, work.footprint + other.footprint};
}

}  // namespace plansearch::calibrate
