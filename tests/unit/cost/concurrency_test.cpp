// SPDX-License-Identifier: Apache-2.0
#include "cost/kernels/compute_cost.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace plansearch::concurrency_test {

namespace {

constexpr std::array kAll{Activity::Compute, Activity::Local, Activity::Fabric, Activity::FromHost,
                          Activity::ToHost};

ActivityMask mask(const std::vector<Activity>& activities) {
  ActivityMask active = 0;
  for (const Activity activity : activities) active |= bit(activity);
  return active;
}

ConcurrencyCoefficients by_hand() {
  ConcurrencyCoefficients shared;
  shared.multiprocessor_share[static_cast<std::size_t>(Activity::Local)] = 0.5;
  shared.multiprocessor_share[static_cast<std::size_t>(Activity::Fabric)] = 0.25;
  shared.path_share.set(Activity::FromHost, Activity::ToHost, 0.6);
  shared.path_share.set(Activity::ToHost, Activity::Fabric, 1.0);
  return shared;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("concurrency: two streams, by hand") {
    const ConcurrencyRates rates = concurrency_rates(by_hand());
    using A = Activity;
    // Messages keep half, a quarter, and three quarters of the chip; kernels take nothing from
    // them.
    CHECK(rates.rate(mask({A::Compute, A::Local}), A::Compute) == doctest::Approx(0.5));
    CHECK(rates.rate(mask({A::Compute, A::Local}), A::Local) == 1.0);
    CHECK(rates.rate(mask({A::Compute, A::Fabric}), A::Compute) == doctest::Approx(0.75));
    CHECK(rates.rate(mask({A::Compute, A::Local, A::Fabric}), A::Compute) == doctest::Approx(0.25));
    // 1 / (1 + 0.6), both ways; a path that is taken in turns halves both.
    CHECK(rates.rate(mask({A::FromHost, A::ToHost}), A::FromHost) == doctest::Approx(0.625));
    CHECK(rates.rate(mask({A::FromHost, A::ToHost}), A::ToHost) == doctest::Approx(0.625));
    CHECK(rates.rate(mask({A::Fabric, A::ToHost}), A::Fabric) == doctest::Approx(0.5));
    CHECK(rates.rate(mask({A::Fabric, A::ToHost}), A::ToHost) == doctest::Approx(0.5));
    CHECK(rates.rate(mask({A::Compute, A::ToHost}), A::Compute) == 1.0);
    // Copies add up: 1 / (1 + 0.6 + 1).
    CHECK(rates.rate(mask({A::FromHost, A::Fabric, A::ToHost}), A::ToHost) ==
          doctest::Approx(1.0 / 2.6));
  }

  TEST_CASE("concurrency: who takes turns with kernels and messages waits for them together") {
    ConcurrencyCoefficients shared;
    shared.path_share.set(Activity::Compute, Activity::FromHost, 1.0);
    shared.path_share.set(Activity::Local, Activity::FromHost, 1.0);
    const ConcurrencyRates rates = concurrency_rates(shared);
    const ActivityMask active = mask({Activity::Compute, Activity::Local, Activity::FromHost});
    CHECK(rates.rate(active, Activity::FromHost) == doctest::Approx(0.5));
    CHECK(rates.rate(active, Activity::Compute) == doctest::Approx(0.5));
    CHECK(rates.rate(active, Activity::Local) == doctest::Approx(0.5));
  }

  TEST_CASE("concurrency: alone is full speed, and more activity never speeds anybody up") {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> share(0.0, 1.0);
    for (int round = 0; round < 100; ++round) {
      ConcurrencyCoefficients shared;
      for (const Activity messages : {Activity::Local, Activity::Fabric}) {
        shared.multiprocessor_share[static_cast<std::size_t>(messages)] = share(random) * 0.9;
      }
      for (const auto& [one, other] : kPathPairs) shared.path_share.set(one, other, share(random));
      const ConcurrencyRates rates = concurrency_rates(shared);
      for (const Activity activity : kAll) {
        CHECK(rates.rate(bit(activity), activity) == 1.0);
        for (unsigned active = 0; active < 32; ++active) {
          const double before = rates.rate(static_cast<ActivityMask>(active), activity);
          CHECK(before > 0.0);
          for (const Activity more : kAll) {
            CHECK(rates.rate(static_cast<ActivityMask>(active | bit(more)), activity) <= before);
          }
        }
      }
    }
  }
}

}  // namespace plansearch::concurrency_test
