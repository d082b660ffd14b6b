// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "measure/calibrate/probe.hpp"

namespace plansearch::calibrate {
namespace {

constexpr double kShortest = 256.0;
constexpr double kLongest = 16384.0;

Point point_of(const std::string& format, const char* direction, const AttentionShape& shape) {
  Point point{"attention", {{"dtype", format}, {"direction", direction}, {"mask", "causal"}}};
  const auto add = [&](const char* name, double value) {
    point.cells[name] = fmt::format("{:.0f}", value);
  };
  add("batch", shape.batch);
  add("seq_len", shape.queries);
  add("heads", shape.heads);
  add("kv_heads", shape.kv_heads);
  add("head_dim", shape.key_size);
  return point;
}

/// Fused kernels take 16-bit numbers; a processor has only its own format.
std::string format_of(const Grid& grid) {
  for (const char* format : {"bf16", "fp16"}) {
    if (std::ranges::find(grid.formats, format) != grid.formats.end()) return format;
  }
  return grid.formats.empty() ? std::string() : grid.formats.front();
}

}  // namespace

/// Heads of 64 and 128 separate products from exponentials, few heads the tail of the last wave,
/// short sequences the start.
std::vector<Point> attention_points(const Grid& grid) {
  struct Heads {
    double batch;
    double heads;
    double kv_heads;
    double size;
  };
  constexpr std::array kHeads{Heads{1, 8, 8, 64},   Heads{1, 16, 16, 128}, Heads{4, 16, 16, 64},
                              Heads{2, 32, 8, 128}, Heads{8, 32, 32, 128}, Heads{1, 2, 2, 128}};
  std::vector<Point> points;
  const std::string format = format_of(grid);
  if (format.empty()) return points;
  const double step = grid.quick ? 4.0 : 2.0;
  for (const Heads& heads : kHeads) {
    for (double length = kShortest; length <= kLongest; length *= step) {
      for (const char* direction : {"forward", "backward"}) {
        Point point = point_of(format, direction,
                               {heads.batch, heads.heads, heads.kv_heads, length, length,
                                heads.size, heads.size, 0.5});
        const Work work = attention_work(point);
        if (work.flops > grid.most_flops || work.footprint > grid.most_bytes) continue;
        points.push_back(std::move(point));
      }
    }
  }
  return points;
}

AttentionShape attention_shape(const Point& point) {
  const double length = point.number("seq_len");
  const double size = point.number("head_dim");
  return {point.number("batch"),
          point.number("heads"),
          point.number("kv_heads"),
          length,
          length,
          size,
          size,
          point.word("mask") == "full" ? 1.0 : 0.5};
}

/// Two products forward; backward makes the scores again and four gradients.
Work attention_work(const Point& point) {
  const AttentionShape shape = attention_shape(point);
  const bool forward = point.word("direction") != "backward";
  const double rows = shape.batch * shape.queries;
  const double tensors = (shape.heads * 2.0 + shape.kv_heads * 2.0) * shape.key_size * rows *
                         element_bytes(point.word("dtype")) * (forward ? 1.0 : 2.0);
  const double products = forward ? 2.0 : 5.0;
  return {products * 2.0 * rows * shape.keys * shape.heads * shape.key_size * shape.useful_fraction,
          tensors, tensors};
}

}  // namespace plansearch::calibrate
