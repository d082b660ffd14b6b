// SPDX-License-Identifier: Apache-2.0
#include "calibrate/session.hpp"

#include <doctest/doctest.h>

namespace plansearch::calibrate {

TEST_SUITE("unit") {
  TEST_CASE("a budget is a time above zero") {
    CHECK(parse_budget("90") == 90.0);
    CHECK(parse_budget("90s") == 90.0);
    CHECK(parse_budget("2m") == 120.0);
    CHECK(parse_budget("2 min") == 120.0);
    CHECK(parse_budget("1.5m") == 90.0);
    for (const char* wrong : {"", "m", "-1", "0", "two", "2 GB", "nan", "inf"}) {
      CAPTURE(wrong);
      CHECK_FALSE(parse_budget(wrong));
    }
  }
}

}  // namespace plansearch::calibrate
