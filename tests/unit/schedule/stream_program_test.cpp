// SPDX-License-Identifier: Apache-2.0
// Instructions on streams, against timelines drawn by hand.
#include "schedule/simulation/stream_program.hpp"

#include <doctest/doctest.h>

namespace plansearch::stream_program_test {
namespace {

constexpr std::uint8_t kKernels = 0;

StreamInstruction kernel(double work, FixedVector<StreamDependency, 4> after = {}) {
  return {kKernels, Activity::Compute, 0.0, work, after};
}

StreamInstruction message(std::uint8_t stream, double latency, double work,
                          FixedVector<StreamDependency, 4> after = {},
                          Activity activity = Activity::Local) {
  return {stream, activity, latency, work, after};
}

StreamRun run(const StreamProgram& program, int copies, const ConcurrencyRates& rates = {}) {
  StreamRun result;
  StreamSimulator(rates).run(program, copies, result);
  return result;
}

SteadyRun steady(const StreamProgram& program, const ConcurrencyRates& rates = {}) {
  SteadyRun result;
  StreamSimulator(rates).steady(program, result);
  return result;
}

/// A gather that is posted when the copy before begins its kernel, and the kernel that reads it.
StreamProgram prefetch(double gather, double compute) {
  // begin (0), gather (1): after the begin of the copy before; kernel (2): after the gather.
  return {{kernel(0.0), message(1, 0.0, gather, {{0, 1}}), kernel(compute, {{1, 0}})}, 2};
}

TEST_SUITE("unit") {
  TEST_CASE("a message that the next kernel waits for adds its time") {
    // kernel 0..3, message 3..5, kernel 5..9; and once more.
    const StreamProgram program{{kernel(3), message(1, 0.5, 1.5, {{0, 0}}), kernel(4, {{1, 0}})},
                                2};
    const StreamRun one = run(program, 1);
    CHECK(one.length == doctest::Approx(9));
    CHECK(one.exposed[1] == doctest::Approx(2));
    CHECK(run(program, 2).length == doctest::Approx(18));
  }

  TEST_CASE("a gather one copy ahead shows its first time only, unless it is the longer one") {
    // gather 0..4, kernel 4..14; the next gather 4..8 hides under it: 4 + 10 n.
    const SteadyRun hidden = steady(prefetch(4, 10));
    CHECK(hidden.steady.length == doctest::Approx(10));
    CHECK(hidden.steady.exposed[1] == doctest::Approx(0));
    CHECK(hidden.edges.length == doctest::Approx(4));
    CHECK(hidden.edges.exposed[1] == doctest::Approx(4));
    // gathers 0..15, 15..30, ...: every copy waits 5 more than its kernel takes.
    const SteadyRun bound = steady(prefetch(15, 10));
    CHECK(bound.steady.length == doctest::Approx(15));
    CHECK(bound.steady.exposed[1] == doctest::Approx(5));
    CHECK(bound.edges.length == doctest::Approx(10));
  }

  TEST_CASE("what nobody waits for ends after the last kernel") {
    // kernels 0..10, 10..20; reductions of 4: 10..14, 20..24.
    const StreamProgram program{{kernel(10), message(1, 0, 4, {{0, 0}})}, 2};
    CHECK(run(program, 2).length == doctest::Approx(24));
    CHECK(run(program, 2).exposed[1] == doctest::Approx(4));
    // Of 13: 10..23, 23..36, 36..49: as fast as the reductions go.
    const StreamProgram slow{{kernel(10), message(1, 0, 13, {{0, 0}})}, 2};
    CHECK(run(slow, 3).length == doctest::Approx(49));
    CHECK(run(slow, 3).exposed[1] == doctest::Approx(19));
  }

  TEST_CASE("two messages over one link take half of it each, over two links all of both") {
    const auto both = [](Activity second) {
      return StreamProgram{{kernel(0), message(1, 0, 4, {{0, 0}}),
                            message(2, 0, 4, {{0, 0}}, second), kernel(1, {{1, 0}, {2, 0}})},
                           3};
    };
    CHECK(run(both(Activity::Local), 1).length == doctest::Approx(9));
    CHECK(run(both(Activity::Fabric), 1).length == doctest::Approx(5));
  }

  TEST_CASE("on a faster chip a message may begin sooner, beside the one that kernels wait for") {
    // Message 1 and kernel 0 begin at 0; kernel 2 needs message 1, message 3 only kernel 0, and
    // nobody waits for it. A chip twice as fast ends kernel 0 at half of message 1, whose second
    // half then shares the link with message 3: kernel 2 begins at 1.5 instead of 1. As in Graham's
    // anomalies of schedules (1969), every part is shorter and the whole is longer.
    const auto length = [](double speed) {
      const StreamProgram program{{kernel(1.0 / speed), message(1, 0, 1),
                                   kernel(0.1 / speed, {{1, 0}}), message(2, 0, 0.5, {{0, 0}})},
                                  3};
      return run(program, 1);
    };
    // Kernel 0 0..1, kernel 2 1..1.1; message 3 1..1.5 after them.
    CHECK(length(1.0).exposed[1] == doctest::Approx(0.0));
    // Messages share from 0.5 on: each has half left, both end at 1.5.
    CHECK(length(2.0).exposed[1] == doctest::Approx(1.0));
    CHECK(length(1.0).length == doctest::Approx(1.5));
    CHECK(length(2.0).length == doctest::Approx(1.55));
  }

  TEST_CASE("what runs at once runs at the measured rates, piece by piece") {
    // Together the kernel runs at a half and the message at four fifths. Message: 4 / 0.8 = 5.
    // The kernel has done 2.5 of 10 then, and the other 7.5 alone: 12.5, of which 2.5 are owed.
    ConcurrencyRates rates;
    const ActivityMask together = bit(Activity::Compute) | bit(Activity::Local);
    rates.set(together, Activity::Compute, 0.5);
    rates.set(together, Activity::Local, 0.8);
    const StreamProgram program{{kernel(0), message(1, 0, 4, {{0, 0}}), kernel(10)}, 2};
    const StreamRun result = run(program, 1, rates);
    CHECK(result.length == doctest::Approx(12.5));
    CHECK(result.exposed[1] == doctest::Approx(2.5));
    // A latency of 20 moves nothing while the kernel runs: 20 + 4.
    const StreamProgram late{{kernel(0), message(1, 20, 4, {{0, 0}}), kernel(10)}, 2};
    CHECK(run(late, 1, rates).length == doctest::Approx(24));
  }

  TEST_CASE("copies that share nothing are as long together as one by one") {
    // A reduction hides under a kernel and is waited for in its own copy; another hides nothing;
    // the last is left over at the end of its copy, so that copies do overlap.
    const StreamProgram hidden{
        {kernel(3), message(1, 0.5, 4, {{0, 0}}), kernel(6), kernel(1, {{1, 0}})}, 2};
    const StreamProgram serial{{kernel(3), message(1, 0.5, 4, {{0, 0}}), kernel(1, {{1, 0}})}, 2};
    const StreamProgram open{
        {kernel(3), message(1, 0.5, 4, {{0, 0}}), kernel(6), message(1, 0, 2, {{2, 0}})}, 2};
    for (const StreamProgram& program : {hidden, serial, open}) {
      for (const double rate : {1.0, 0.5}) {
        ConcurrencyRates rates;
        const ActivityMask together = bit(Activity::Compute) | bit(Activity::Local);
        rates.set(together, Activity::Compute, rate);
        const SteadyRun increment = steady(program, rates);
        for (const int copies : {2, 3, 4}) {
          const StreamRun all = run(program, copies, rates);
          CHECK(increment.edges.length + copies * increment.steady.length ==
                doctest::Approx(all.length));
          CHECK(increment.edges.exposed[1] + copies * increment.steady.exposed[1] ==
                doctest::Approx(all.exposed[1]));
        }
      }
    }
    // By hand, at full rates: 3 + 6 + 1; 3 + 4.5 + 1; 3 + 6, the last 2 once.
    CHECK(steady(hidden).steady.length == doctest::Approx(10));
    CHECK(steady(serial).steady.length == doctest::Approx(8.5));
    CHECK(steady(open).steady.length == doctest::Approx(9));
    CHECK(steady(open).edges.length == doctest::Approx(2));
  }

  TEST_CASE("slices lie where the drawing has them") {
    std::vector<StreamSlice> slices;
    StreamRun result;
    const ConcurrencyRates rates;
    StreamSimulator(rates).run(prefetch(4, 10), 2, result, &slices);
    // gather of copy 0, gather of copy 1 (posted at once: copy 0 begins at 0), kernel, kernel.
    REQUIRE(slices.size() == 4);
    CHECK(slices[1].instruction == 1);
    CHECK(slices[1].copy == 1);
    CHECK(slices[1].start == doctest::Approx(4));
    CHECK(slices[1].end == doctest::Approx(8));
    CHECK(slices[2].start == doctest::Approx(4));
    CHECK(slices[3].end == doctest::Approx(24));
  }
}

}  // namespace
}  // namespace plansearch::stream_program_test
