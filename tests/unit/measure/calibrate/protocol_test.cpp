// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/session.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "unit/measure/calibrate/fake_backend.hpp"

namespace plansearch::calibrate::protocol_test {
namespace {

const Point kPoint{"stream", {{"pass", "copy"}, {"bytes", "65536"}}};

io::Sample measured(std::function<double(int)> time, const Protocol& protocol = {}) {
  test::FakeBackend backend([&](int calls, double /*bytes*/) { return time(calls); });
  return measure(backend, kPoint, protocol);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the time of a call is the median of the blocks") {
    const auto sample = measured([](int calls) { return 2e-3 * calls; });
    CHECK(*sample.time_us == doctest::Approx(2000.0));
    CHECK(sample.blocks_us.size() == 7);
    CHECK(sample.spread == 0.0);
    CHECK(sample.flags.empty());
  }

  TEST_CASE("one slow block is flagged, kept, and moves nothing") {
    int run = 0;
    const auto sample = measured([&](int calls) {
      const bool slow = ++run == 6;
      return (slow ? 20e-3 : 2e-3) * calls;
    });
    CHECK(*sample.time_us == doctest::Approx(2000.0));
    CHECK(sample.flags == std::vector<std::string>{"outliers 1"});
    CHECK(sample.blocks_us.size() == 7);
  }

  TEST_CASE("blocks that differ throughout are flagged as unstable") {
    int run = 0;
    const auto sample =
        measured([&](int calls) { return (1.0 + 0.3 * (++run % 4)) * 1e-3 * calls; });
    CHECK(sample.flags == std::vector<std::string>{"unstable"});
  }

  TEST_CASE("a time that is no time fails the point, with the reason") {
    for (const double wrong : {std::nan(""), -1.0, 0.0, std::numeric_limits<double>::infinity()}) {
      const auto sample = measured([&](int) { return wrong; });
      CHECK_FALSE(sample.time_us);
      CHECK(sample.failed == "the clock or the device returned no time");
      CHECK(sample.blocks_us.empty());
    }
    int run = 0;  // the last block only
    const auto late =
        measured([&](int calls) { return ++run == 10 ? std::nan("") : 1e-3 * calls; });
    CHECK_FALSE(late.failed.empty());
  }

  TEST_CASE("warm-up ends when three calls agree, or when its time is over") {
    int runs = 0;
    measured([&](int calls) { return ++runs, 1e-3 * calls; });
    CHECK(runs == 3 + 7);
    runs = 0;
    measured([&](int calls) { return (++runs % 2 == 0 ? 50e-3 : 100e-3) * calls; });
    CHECK(runs > 6 + 7 - 1);
    CHECK(runs < 12 + 7);
  }
}

}  // namespace plansearch::calibrate::protocol_test
