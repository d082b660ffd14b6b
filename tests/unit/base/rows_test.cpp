// SPDX-License-Identifier: Apache-2.0
// Rows of more than one vector, and a rest.
#include "base/rows.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace plansearch::rows_test {
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
  }

  TEST_CASE("rows: the least sum, in every lane and in the rest") {
    // Ten: one vector of eight, and two more.
    const std::vector<double> row{9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    for (std::size_t least = 0; least < row.size(); ++least) {
      std::vector<double> more(row.size(), 0.0);
      more[least] = -20.0;
      CHECK(least_sum(row.data(), more.data(), row.size()) == row[least] - 20.0);
    }
    CHECK(least_sum(row.data(), row.data(), 0) == std::numeric_limits<double>::infinity());
  }
}

}  // namespace
}  // namespace plansearch::rows_test
