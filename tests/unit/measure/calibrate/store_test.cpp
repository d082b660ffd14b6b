// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/processes/processes.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate::store_test {
namespace {

/// Free at the moment, and not that of a test beside this one.
int port() {
  static std::atomic<int> next = 31000 + static_cast<int>(::getpid() % 8000);
  return ++next;
}

/// What each of so many processes does; threads stand for them.
void run(int size, const std::function<void(Processes&)>& work,
         const std::function<void(const std::string&)>& on_loss) {
  const int where = port();
  std::vector<std::thread> all;
  for (int rank = 0; rank < size; ++rank) {
    all.emplace_back([&, rank] {
      const Launch launch{"test", rank, size, rank, size, "localhost", where};
      try {
        const auto own = join_store(launch, on_loss, 20.0);
        work(*own);
      } catch (const ProcessLost& lost) {
        on_loss(lost.reason);
      } catch (const std::runtime_error&) {  // the one that ends before its time
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

void never(const std::string& who) {
  FAIL_CHECK(who);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("processes agree on the largest number and know the texts of all") {
    std::mutex lock;
    run(
        4,
        [&](Processes& own) {
          const double largest = own.max(own.rank() == 2 ? 7.5 : own.rank());
          const auto texts = own.texts(std::string(static_cast<std::size_t>(own.rank()), 'x'));
          own.wait_for_all();
          const std::string first = own.share(own.rank() == 0 ? std::string("a\0b", 3) : "other");
          const std::lock_guard guard(lock);
          CHECK(largest == 7.5);
          CHECK(texts == std::vector<std::string>{"", "x", "xx", "xxx"});
          CHECK(first == std::string("a\0b", 3));
        },
        never);
  }

  TEST_CASE("one that ends before its time is named to the first") {
    std::mutex lock;
    std::vector<std::string> told;
    run(
        3,
        [&](Processes& own) {
          own.wait_for_all();
          if (own.rank() == 2) throw std::runtime_error("a crash");
          own.wait_for_all();
        },
        [&](const std::string& who) {
          const std::lock_guard guard(lock);
          told.push_back(who);
        });
    const auto names_it = [](const std::string& who) { return who.starts_with("rank 2 ("); };
    CHECK(std::any_of(told.begin(), told.end(), names_it));
  }

  TEST_CASE("who does not come is named, and strangers at the port are turned away") {
    const int where = port();
    std::thread stranger([&] {
      const auto socket = connect_within("localhost", where, 5.0);
      static_cast<void>(send_text(socket, "GET / HTTP/1.1"));
    });
    try {
      static_cast<void>(join_store({"test", 0, 3, 0, 3, "localhost", where}, never, 1.0));
      FAIL_CHECK("two are missing");
    } catch (const Unmeasurable& missing) {
      CHECK(missing.reason.find("ranks 1, 2 did not come") != std::string::npos);
    }
    stranger.join();
    CHECK_THROWS_AS(
        static_cast<void>(join_store({"test", 1, 2, 0, 1, "localhost", where}, never, 0.2)),
        Unmeasurable);
  }
}

}  // namespace plansearch::calibrate::store_test
