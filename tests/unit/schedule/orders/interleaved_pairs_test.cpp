// SPDX-License-Identifier: Apache-2.0
// Megatron-LM@d98e8a64 (2026-08-22) megatron/core/pipeline_parallel/schedules.py:
// get_pp_rank_microbatches runs one more forward ahead, then every forward beside a backward.
#include <doctest/doctest.h>

#include "golden.hpp"

namespace plansearch::testing {
namespace {

TEST_SUITE("schedule") {
  TEST_CASE("interleaved pairs: two devices with two chunks, written out") {
    const PipelineShape shape = shape_of("interleaved-pairs", 2, 4, 2);
    const auto order = std::get<ComputeOrder>(make_order(shape));
    using enum Phase;
    CHECK(order.devices[1] == std::vector<ComputeStep>{{0, 0, Forward},
                                                       {0, 1, Forward},
                                                       {1, 0, Forward},
                                                       {1, 1, Forward},
                                                       {1, 0, Backward, true},
                                                       {0, 2, Forward},
                                                       {1, 1, Backward, true},
                                                       {0, 3, Forward},
                                                       {0, 0, Backward, true},
                                                       {1, 2, Forward},
                                                       {0, 1, Backward, true},
                                                       {1, 3, Forward},
                                                       {1, 2, Backward, true},
                                                       {1, 3, Backward},
                                                       {0, 2, Backward},
                                                       {0, 3, Backward}});
    // By virtual stage, chunk by chunk: the first device has three pairs, the second five.
    CHECK(joined_forwards(shape) == std::vector<int>{1, 2, 2, 3});
  }

  TEST_CASE("interleaved pairs: what a pair gains, a step of many micro-batches gains") {
    // F and B of 2 ticks each, 3 together: a long step of one device is 3 ticks a pair.
    for (const int p : {2, 4}) {
      const PipelineShape shape = shape_of("interleaved-pairs", p, 64 * p, 2);
      const auto makespan = [&](std::optional<Ticks> overlapped) {
        PipelineSimulator simulator;
        const auto times = uniform_durations(shape, {2, 2, 0, 0, overlapped});
        return summarize(shape, simulator.run(shape, times.view())).makespan;
      };
      const Ticks gained = makespan(std::nullopt) - makespan(3);
      int pairs = 0;
      for (const int count : joined_forwards(shape)) pairs = std::max(pairs, count);
      CHECK(gained >= 2 * pairs - 4 * p);
      CHECK(gained <= 2 * 64 * p);
    }
  }

  TEST_CASE("dualpipe: pairs of forwards and backwards") {
    // deepseek-ai/DualPipe@3da1bbe dualpipe.py, phases 4 and 5: of the two devices of p = 2 and
    // m = 8, which mirror each other, each has 2 (4 - 2 + 1) - 1 pairs, where both ways meet.
    const std::vector<int>& counts = joined_forwards(shape_of("dualpipe", 2, 8));
    int sum = 0;
    for (const int count : counts) sum += count;
    CHECK(sum == 2 * (2 * (4 - 2 + 1) - 1));
  }
}

}  // namespace
}  // namespace plansearch::testing
