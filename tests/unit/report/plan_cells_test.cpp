// SPDX-License-Identifier: Apache-2.0
#include "report/plan_cells.hpp"

#include <doctest/doctest.h>

namespace plansearch::plan_cells_test {
namespace {

TEST_SUITE("unit") {
  TEST_CASE("values of stages: equal neighbours are said once") {
    CHECK(by_stage({"4", "8", "8", "8", "4"}) == "4/8x3/4");
    CHECK(by_stage({"none", "none", "full"}) == "none x2/full");
    CHECK(by_stage({"8+sp", "8+sp", "4"}) == "8+sp x2/4");
    CHECK(by_stage({"2"}) == "2");
  }

  TEST_CASE("counts have separators as long as anybody reads them") {
    CHECK(grouped(0) == "0");
    CHECK(grouped(1234567) == "1,234,567");
    CHECK(grouped(999999999999999) == "999,999,999,999,999");
    CHECK(grouped(9000000000000000000) == "9.0e+18");
  }
}

}  // namespace
}  // namespace plansearch::plan_cells_test
