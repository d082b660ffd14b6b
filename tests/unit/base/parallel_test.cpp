// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace plansearch::parallel_test {
namespace {

TEST_SUITE("unit") {
  TEST_CASE("every index is visited once, call after call, by any number of threads") {
    for (int round = 0; round < 300; ++round) {
      std::vector<int> visits(static_cast<std::size_t>(round % 17), 0);
      parallel_for(visits.size(), 1 + round % 5, [&](std::size_t i) { ++visits[i]; });
      CHECK(visits == std::vector<int>(visits.size(), 1));
    }
  }

  TEST_CASE("several threads take part at once") {
    // Each call waits for the other: one thread alone would never finish.
    std::atomic<int> arrived{0};
    parallel_for(2, 2, [&](std::size_t) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    CHECK(arrived.load() == 2);
  }

  TEST_CASE("the failure of the lowest index is the one reported") {
    for (const int threads : {1, 2, 5}) {
      std::string told;
      try {
        parallel_for(64, threads, [](std::size_t i) {
          if (i >= 7) throw std::runtime_error(std::to_string(i));
        });
      } catch (const std::runtime_error& error) {
        told = error.what();
      }
      CHECK(told == "7");
    }
  }

  TEST_CASE("calls from inside a call and from beside it finish") {
    std::atomic<int> sum{0};
    const auto call = [&] {
      parallel_for(8, 3, [&](std::size_t) {
        parallel_for(4, 3, [&](std::size_t i) { sum += static_cast<int>(i); });
      });
    };
    std::array<std::thread, 3> callers;
    for (std::thread& caller : callers) caller = std::thread(call);
    for (std::thread& caller : callers) caller.join();
    CHECK(sum.load() == 3 * 8 * 6);
  }
}

}  // namespace
}  // namespace plansearch::parallel_test
