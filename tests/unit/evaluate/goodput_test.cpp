// SPDX-License-Identifier: Apache-2.0
#include "evaluate/answer/goodput.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "support/toy_problem.hpp"

namespace plansearch::goodput_test {
namespace {

/// A job run interruption by interruption: elapsed over useful time.
double simulated(double interval, double write, double restart, double mtbf, int segments) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> until_failure(1.0 / mtbf);
  double elapsed = 0.0;
  double failure = until_failure(random);
  for (int segment = 0; segment < segments; ++segment) {
    for (;;) {
      if (failure >= interval + write) {
        failure -= interval + write;
        elapsed += interval + write;
        break;
      }
      elapsed += failure;
      failure = until_failure(random);
      while (failure < restart) {  // again, while it restarts
        elapsed += failure;
        failure = until_failure(random);
      }
      failure -= restart;
      elapsed += restart;
    }
  }
  return elapsed / (interval * segments);
}

ReliabilityRecord record(double hours, double interruptions, const std::string& machine = {}) {
  return {"", machine, hours * 3600.0, interruptions, {}, ""};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("goodput: the closed form is what a simulated job loses") {
    struct Case {
      double interval, write, restart, mtbf;
    };
    for (const Case& c : {Case{227, 2.8, 900, 9450}, Case{1800, 120, 600, 7200},
                          Case{600, 300, 1200, 3600}, Case{3600, 10, 60, 100000}}) {
      const double closed = elapsed_over_useful(Seconds(c.interval), Seconds(c.write),
                                                Seconds(c.restart), Seconds(c.mtbf));
      CHECK(closed == doctest::Approx(simulated(c.interval, c.write, c.restart, c.mtbf, 400'000))
                          .epsilon(0.01));
    }
  }

  TEST_CASE("goodput: the interval between checkpoints loses least") {
    for (const double write : {1.0, 30.0, 600.0}) {
      for (const double mtbf : {3600.0, 1e5}) {
        const Seconds best = checkpoint_interval(Seconds(write), Seconds(mtbf));
        const auto lost = [&](double factor) {
          return elapsed_over_useful(best * factor, Seconds(write), Seconds(600), Seconds(mtbf));
        };
        CHECK(lost(1.0) <= lost(0.8));
        CHECK(lost(1.0) <= lost(1.25));
      }
    }
    // Young 1974: sqrt(2 x 2 s x 10,000 s) = 200 s, less the write itself; Daly adds a third of
    // sqrt(2 / 20,000) to the root.
    CHECK(checkpoint_interval(Seconds(2), Seconds(10000)).value() ==
          doctest::Approx(200.0 * (1.0 + 0.01 / 3.0 + 0.0001 / 9.0) - 2.0));
    CHECK(checkpoint_interval(Seconds(300), Seconds(100)) == Seconds(100));
  }

  TEST_CASE("goodput: the rate is the median of the records, the spread that of their logarithms") {
    const Reliability odd = with_rate_of({record(1000, 10), record(1000, 1), record(4000, 10)}, {});
    CHECK(odd.gpu_mtbf.value() == doctest::Approx(400.0 * 3600.0));
    const double low = std::log(4.0);
    const double high = std::log(2.5);
    CHECK(odd.spread == doctest::Approx(std::sqrt((low * low + high * high) / 2.0)));
    const Reliability even = with_rate_of({record(100, 1), record(900, 1)}, {});
    CHECK(even.gpu_mtbf.value() == doctest::Approx(300.0 * 3600.0));
    CHECK(with_rate_of({record(100, 1)}, {}).spread == 0.0);
  }

  TEST_CASE("goodput: a machine with records of its own has their rate and their restart") {
    ReliabilityRecord slow = record(900, 1, "here");
    slow.restart = Seconds(5400);
    Reliability rest;
    rest.restart = Seconds(900);
    const Reliability all = with_rate_of({record(1000, 10), record(100, 1, "here"), slow}, rest);
    CHECK(all.gpu_mtbf.value() == doctest::Approx(100.0 * 3600.0));
    const Reliability here = reliability_on("here", all);
    CHECK(here.gpu_mtbf.value() == doctest::Approx(300.0 * 3600.0));  // median of 100 and 900 h
    CHECK(here.restart == Seconds(5400));
    CHECK(here.records.size() == 2);
    CHECK(here.spread == all.spread);  // how sure a rate is does not follow from two of one place
    CHECK(reliability_on("there", all).gpu_mtbf == all.gpu_mtbf);
    CHECK(reliability_on("there", all).restart == Seconds(900));

    Problem problem = test::toy_problem();
    Reliability own = with_rate_of({record(50000, 1), slow}, rest);
    own.storage_per_node = Bandwidth(1e9);
    own.records.back().machine = problem.cluster->name;
    const Goodput goodput = goodput_of(problem, own);
    CHECK(goodput.mtbf.value() == doctest::Approx(900.0 * 3600.0 / problem.gpus));
    CHECK(goodput.rests_on.restart == Seconds(5400));
  }

  TEST_CASE("goodput: an interval that is given loses what it loses") {
    Problem problem = test::toy_problem();
    Reliability reliability = with_rate_of({record(50000, 1)}, {});
    reliability.restart = Seconds(900);
    reliability.storage_per_node = Bandwidth(1e9);
    const Goodput best = goodput_of(problem, reliability);
    reliability.interval = best.interval * 20.0;
    const Goodput given = goodput_of(problem, reliability);
    CHECK(given.interval == best.interval * 20.0);
    CHECK(given.share < best.share);
    CHECK(given.share ==
          doctest::Approx(1.0 / elapsed_over_useful(given.interval, given.write,
                                                    Seconds(900) + given.write, given.mtbf))
              .epsilon(1e-10));
  }

  TEST_CASE("goodput: ten of a hundred jobs are interrupted more often than p10 says") {
    const Problem problem = test::toy_problem();
    Reliability reliability = with_rate_of({record(1000, 1), record(4000, 1)}, {});
    reliability.restart = Seconds(900);
    reliability.storage_per_node = Bandwidth(1e9);
    const Goodput goodput = goodput_of(problem, reliability);
    CHECK(goodput.p10 < goodput.share);
    CHECK(goodput.share < goodput.p90);
    // Logarithms of 1000 and 4000 h lie ln 2 from their median; a tenth lies 1.2816 deviations off.
    const double tail = std::exp(1.2816 * std::sqrt(2.0) * std::log(2.0));
    CHECK(goodput.p10 == doctest::Approx(1.0 / elapsed_over_useful(goodput.interval, goodput.write,
                                                                   Seconds(900) + goodput.write,
                                                                   goodput.mtbf * (1.0 / tail)))
                             .epsilon(1e-4));
  }

  TEST_CASE("goodput: a checkpoint holds parameters, their master copies and both moments") {
    // As in host_update_test.cpp: 8 (12 h^2 + 4 h) + 51202 h parameters, h = 1024; 2 bytes and 12 of
    // Adam. Three nodes of eight write 20 devices' share.
    constexpr double kHidden = 1024;
    constexpr double kAll = 8 * (12 * kHidden * kHidden + 4 * kHidden) + (51200 + 2) * kHidden;
    Problem problem = test::toy_problem();
    CHECK(checkpoint_bytes(problem).value() == doctest::Approx(14.0 * kAll));
    Reliability reliability = with_rate_of({record(50000, 1)}, {});
    reliability.storage_per_node = Bandwidth(1e9);
    problem.gpus = 20;
    CHECK(goodput_of(problem, reliability).write.value() == doctest::Approx(14.0 * kAll / 3e9));
  }

  TEST_CASE("goodput: more devices fail more often, and write faster") {
    Problem problem = test::toy_problem();
    Reliability reliability = with_rate_of({record(50000, 1)}, {});
    reliability.restart = Seconds(900);
    reliability.repair = Seconds(86400);
    reliability.storage_per_node = Bandwidth(1e9);
    problem.gpus = problem.cluster->accelerators_per_node;
    const Goodput one = goodput_of(problem, reliability);
    CHECK(one.mtbf.value() == doctest::Approx(50000.0 * 3600.0 / problem.gpus));
    CHECK(one.write.value() == doctest::Approx(checkpoint_bytes(problem).value() / 1e9));
    CHECK(one.p10 == one.share);  // one record has no spread
    problem.gpus *= 2;
    const Goodput two = goodput_of(problem, reliability);
    CHECK(two.mtbf.value() == doctest::Approx(one.mtbf.value() / 2.0));
    CHECK(two.write.value() == doctest::Approx(one.write.value() / 2.0));
    CHECK(two.share < one.share);
    CHECK(one.share < 1.0);
    // 24 h over 50,000 h / 8: 0.0038 nodes in repair; none is enough 99.6 % of the time.
    CHECK(one.spare_nodes == 0);
    problem.gpus = 100'000;  // 48 on average; the 95 % quantile of Poisson(48) is 60
    CHECK(goodput_of(problem, reliability).spare_nodes == 60);
  }
}

}  // namespace plansearch::goodput_test
