// SPDX-License-Identifier: Apache-2.0
// Rows of five: more than one vector of four, and a rest.
#include "base/rows.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace plansearch {
namespace {

TEST_SUITE("unit") {
  TEST_CASE("rows: sums and least sums") {
    std::vector<double> row{1, 2, 3, 4, 5};
    const std::vector<double> more{10, 0, -3, 1, 2};
    add_row(row.data(), more.data(), row.size());
    CHECK(row == std::vector<double>{11, 2, 0, 5, 7});
    const double none = std::numeric_limits<double>::infinity();
    std::vector<double> least{none, 3, 3, 3, 3};
    min_plus_row(least.data(), row.data(), 1.0, least.size());  // 12 3 1 6 8 against it
    CHECK(least == std::vector<double>{12, 3, 1, 3, 3});
    take_less(least.data(), more.data(), least.size());
    CHECK(least == std::vector<double>{10, 0, -3, 1, 2});
  }

  TEST_CASE("rows: the value of what is nearer; of equal lengths the one that is there") {
    std::vector<double> values{1, 2, 3, 4, 5};
    const std::vector<double> others{-1, -2, -3, -4, -5};
    const std::vector<double> lengths{2, 2, 2, 0, 2};
    const std::vector<double> other_lengths{1, 2, 3, 0, 0};
    take_nearer(values.data(), others.data(), lengths.data(), other_lengths.data(), values.size());
    CHECK(values == std::vector<double>{-1, 2, 3, 4, -5});
  }
}

}  // namespace
}  // namespace plansearch
