// SPDX-License-Identifier: Apache-2.0
#include "plansearch/stop_token.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>

#include "base/parallel.hpp"

namespace plansearch::stop_token_test {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST_SUITE("unit") {
  TEST_CASE("stop token: without one nothing stops") {
    CHECK(stop_token() == nullptr);
    CHECK(stop_reason() == StopReason::None);
    CHECK_NOTHROW(check_stop());
  }

  TEST_CASE("stop token: every limit says which it is") {
    CHECK(StopToken({}).reason() == StopReason::None);
    CHECK(StopToken({.time = seconds(0)}).reason() == StopReason::TimeLimit);
    CHECK(StopToken({.time = hours(1)}).reason() == StopReason::None);
    CHECK(StopToken({.time = std::chrono::duration<double>(1e300)}).reason() == StopReason::None);
    CHECK(StopToken({.memory = Bytes(1)}).reason() == StopReason::MemoryLimit);
    CHECK(StopToken({.memory = Bytes(1e18)}).reason() == StopReason::None);
  }

  TEST_CASE("stop token: what was said once holds") {
    std::atomic<bool> signal{false};
    const StopToken token({.signal = &signal});
    CHECK(token.reason() == StopReason::None);
    signal = true;
    CHECK(token.reason() == StopReason::Signal);
    signal = false;
    CHECK(token.reason() == StopReason::Signal);
  }

  TEST_CASE("stop token: an inner one stops with the outer one, and alone") {
    std::atomic<bool> signal{false};
    const StopToken outer({.signal = &signal});
    const StopToken inner({}, &outer);
    const StopToken late({.time = seconds(0)}, &outer);
    CHECK(late.reason() == StopReason::TimeLimit);
    CHECK(outer.reason() == StopReason::None);
    signal = true;
    CHECK(inner.reason() == StopReason::Signal);
  }

  TEST_CASE("stop scope: the token rules until the end of the scope") {
    const StopToken late({.time = seconds(0)});
    {
      const StopScope scope(&late);
      CHECK(stop_token() == &late);
      CHECK_THROWS_AS(check_stop(), Stopped);
      {
        const StopScope none(nullptr);
        CHECK_NOTHROW(check_stop());
      }
      CHECK_THROWS_AS(check_stop(), Stopped);
    }
    CHECK_NOTHROW(check_stop());
  }

  TEST_CASE("stop token: parallel work obeys it on every thread, and ends") {
    for (const int threads : {1, 3}) {
      std::atomic<bool> signal{false};
      std::atomic<int> calls{0};
      const StopToken token({.signal = &signal});
      const StopScope scope(&token);
      const auto work = [&](std::size_t) {
        CHECK(stop_token() == &token);
        if (++calls == 10) signal = true;
      };
      CHECK_THROWS_AS(parallel_for(1'000'000, threads, work), Stopped);
      CHECK(calls < 1000);
    }
  }
}

}  // namespace
}  // namespace plansearch::stop_token_test
