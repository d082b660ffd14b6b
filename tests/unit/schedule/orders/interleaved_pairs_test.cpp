// SPDX-License-Identifier: Apache-2.0
// Megatron-LM@d98e8a64 (2026-08-22) megatron/core/pipeline_parallel/schedules.py:
// get_pp_rank_microbatches runs one more forward ahead, then every forward beside a backward.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "../order_walk.hpp"
#include "golden.hpp"

namespace plansearch::testing::interleaved_pairs_test {
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

  TEST_CASE("interleaved pairs: joined forwards are those of the order, whatever its shape") {
    std::mt19937 engine(17);
    int shapes = 0;
    for (int i = 0; i < 400; ++i) {
      PipelineShape shape =
          shape_of("interleaved-pairs", 2 + static_cast<int>(engine() % 4),
                   1 + static_cast<int>(engine() % 30), 2 + static_cast<int>(engine() % 3));
      if (engine() % 2 == 0) shape.group = shape.stages + static_cast<int>(engine() % 3);
      const auto made = make_order(shape);
      const auto* order = std::get_if<ComputeOrder>(&made);
      if (order == nullptr) continue;
      std::vector<int> counts(static_cast<std::size_t>(shape.virtual_stages()), 0);
      for (std::size_t device = 0; device < order->devices.size(); ++device) {
        const auto& steps = order->devices[device];
        for (std::size_t s = 1; s < steps.size(); ++s) {
          if (!steps[s].joined) continue;
          const ComputeStep& forward = steps[s - 1];
          REQUIRE(forward.phase == Phase::Forward);
          ++counts[order->virtual_stage(static_cast<int>(device), forward.chunk)];
        }
      }
      CAPTURE(shape.stages);
      CAPTURE(shape.micro_batches);
      CAPTURE(shape.chunks);
      CHECK(joined_forwards(shape) == counts);
      for (int device = 0; device < shape.stages; ++device) {
        CHECK(peak_chunks(shape, device) == peak_chunks(*order, device));
      }
      ++shapes;
    }
    CHECK(shapes > 100);
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
}  // namespace plansearch::testing::interleaved_pairs_test
