// SPDX-License-Identifier: Apache-2.0
// Borders of windows against places counted one by one.
#include "workload/window.hpp"
#include "support/rounds.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace plansearch::workload_window_test {
namespace {

constexpr DimId kRow{0};
constexpr DimId kTap{1};

struct Case {
  std::int64_t stride = 1;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;
  std::int64_t taps = 1;
  std::int64_t rows = 1;  ///< of the result
  std::int64_t read = 1;  ///< of the tensor
};

/// Places of one slice that a loop over the nest touches inside the tensor.
std::set<std::int64_t> touched(const Case& c, int slices, int slice) {
  std::set<std::int64_t> places;
  for (std::int64_t row = slice * c.rows / slices; row < (slice + 1) * c.rows / slices; ++row) {
    for (std::int64_t tap = 0; tap < c.taps; ++tap) {
      const double at = static_cast<double>(c.stride * row + tap + c.offset);
      const auto place = static_cast<std::int64_t>(std::floor(at / static_cast<double>(c.divisor)));
      if (place >= 0 && place < c.read) places.insert(place);
    }
  }
  return places;
}

WindowPlaces places(const Case& c, int slices) {
  const IndexExpression index{{{kRow, c.stride}, {kTap, 1}}, c.offset, c.divisor};
  const std::vector<double> extents{static_cast<double>(c.rows), static_cast<double>(c.taps)};
  return window_places({index, kRow, static_cast<double>(c.read), extents}, slices);
}

TEST_SUITE("unit") {
  TEST_CASE("rows in two of a 3 x 3 window: a row each way; every second row: one way") {
    // By hand: places -1 to 31 and 32 to 64 of 64 (padding is none).
    CHECK(places({1, -1, 1, 3, 64, 64}, 2).all == 66);
    CHECK(places({1, -1, 1, 3, 64, 64}, 2).most == 33);
    // The lower half starts at row 2 * 16 - 1 = 31; the upper half ends there.
    CHECK(places({2, -1, 1, 3, 32, 64}, 2).all == 65);
    // (64 / 2 - 1 + 1) / 2 = 16 above, (32 - 1) / 2 = 15 below.
    CHECK(places({1, -1, 2, 3, 64, 32}, 2).all == 34);
    CHECK(places({1, 0, 2, 1, 64, 32}, 2).all == 32);  // the nearest place: nothing moves
    // Wider than a slice: rows 2 and 3 of 8 read -1 to 6, of three neighbours.
    CHECK(places({1, -3, 1, 7, 8, 8}, 4).most == 7);
  }

  TEST_CASE("random windows: what is needed and not held, place by place") {
    std::mt19937 random(7);
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    for (int round = 0; round < test::rounds(1000); ++round) {
      const int slices = 1 << draw(0, 3);
      Case c{draw(1, 3), 0, draw(1, 3), draw(1, 7), slices * draw(1, 12), 1};
      c.offset = -draw(0, static_cast<int>(c.taps) - 1);
      c.read = slices * std::max<std::int64_t>(1, c.rows * c.stride / c.divisor / slices);
      CAPTURE(round);
      double all = 0.0;
      double most = 0.0;
      for (int slice = 0; slice < slices; ++slice) {
        std::set<std::int64_t> both = touched(c, slices, slice);
        const std::int64_t width = c.read / slices;
        // Messages carry whole ranges: gaps between taps that a stride leaves come along.
        if (!both.empty()) {
          for (std::int64_t p = *both.begin(); p <= *both.rbegin(); ++p) both.insert(p);
        }
        for (std::int64_t p = slice * width; p < (slice + 1) * width; ++p) both.insert(p);
        if (!both.empty()) {
          for (std::int64_t p = *both.begin(); p <= *both.rbegin(); ++p) both.insert(p);
        }
        all += static_cast<double>(both.size());
        most = std::max(most, static_cast<double>(both.size()));
      }
      CHECK(places(c, slices).all == all);
      CHECK(places(c, slices).most == most);
    }
  }

  TEST_CASE("the dimension that a read moves with is of the result, and has the largest factor") {
    Block block;
    block.tensors = {{"in", {kRow}}, {"out", {kRow}}, {"both", {DimId{2}, DimId{3}}}};
    Operator op;
    op.outputs = {TensorId{1}};
    CHECK(moving_dimension(block, op, {{{kTap, 4}, {kRow, 2}}, -1, 1}) == kRow);
    op.outputs = {TensorId{2}};
    CHECK(moving_dimension(block, op, {{{DimId{3}, 1}, {DimId{2}, 64}}, 0, 1}) == DimId{2});
  }
}

}  // namespace
}  // namespace plansearch::workload_window_test
